"""Finding, fetching, identifying and recording published files."""

import hashlib
import os
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from damage import shuffle
from real_files import (
    SMALL_ROBOT,
    SMALL_SHAPES,
    robot_images,
    shape_arrays,
    write_h5,
)

from untwist.datasets import availability, forget_seen, load
from untwist.datasets.download import download_file
from untwist.datasets.found_file import CHECKS, Access, find_file, is_here
from untwist.datasets.mpi3d import open_mpi3d
from untwist.datasets.published_file import PublishedFile
from untwist.datasets.shapes3d import open_shapes3d
from untwist.store import toml
from untwist.types import InputError

CONTENT = bytes(range(256)) * 40
SHA256 = hashlib.sha256(CONTENT).hexdigest()
MD5 = hashlib.md5(CONTENT).hexdigest()
FILE = PublishedFile("file.bin", size=len(CONTENT), sha256=SHA256)


class Host(BaseHTTPRequestHandler):
    """A web server of one content, which notes what it is asked for."""

    content = CONTENT
    resumes = True
    stops_after = None
    status = 200
    asked: list[str | None] = []

    def do_GET(self):
        asked = self.headers.get("Range")
        type(self).asked.append(asked)
        start = int(asked.split("=")[1].split("-")[0]) if asked and self.resumes else 0
        if self.status != 200:
            self.send_error(self.status)
            return
        if start >= len(self.content) > 0:
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(self.content) - start))
        self.end_headers()
        self.wfile.write(self.content[start:][: self.stops_after])

    def log_message(self, *arguments):
        pass


@pytest.fixture
def host():
    """A server on this machine; yields its class, to be told what to serve, and its address."""
    handler = type("Handler", (Host,), {"asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield handler, f"http://127.0.0.1:{server.server_port}/file.bin"
    server.shutdown()
    thread.join()
    server.server_close()


def dead_address():
    """An address at which nobody answers."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Host)
    port = server.server_port
    server.server_close()
    return f"http://127.0.0.1:{port}/file.bin"


def test_a_file_is_fetched_into_the_cache(host, cache):
    _, url = host
    file = replace(FILE, urls=(url,))
    found = find_file("set", file, Access(download=True))
    assert found.path == cache / "set" / "file.bin"
    assert found.path.read_bytes() == CONTENT
    assert found.confirmed == "the published sha256"
    assert [path.name for path in found.path.parent.iterdir()] == ["file.bin"]


def test_the_first_host_that_answers_is_taken(host, cache):
    handler, url = host
    download_file(replace(FILE, urls=(dead_address(), url)), cache / "file.bin")
    assert (cache / "file.bin").read_bytes() == CONTENT
    assert handler.asked == [None]


def test_a_download_goes_on_where_it_stopped(host, cache):
    handler, url = host
    file = replace(FILE, urls=(url,))
    handler.stops_after = 3000
    with pytest.raises(
        InputError, match=r"ended after 3,000 of 10,240 bytes.*put it at .* by hand"
    ):
        download_file(file, cache / "file.bin")
    assert not (cache / "file.bin").exists()
    handler.stops_after = None
    download_file(file, cache / "file.bin")
    assert handler.asked == [None, "bytes=3000-"]
    assert (cache / "file.bin").read_bytes() == CONTENT
    assert [path.name for path in cache.iterdir()] == ["file.bin"]


def test_a_host_that_cannot_resume_sends_all_again(host, cache):
    handler, url = host
    file = replace(FILE, urls=(url,))
    handler.stops_after = 3000
    with pytest.raises(InputError, match="ended after"):
        download_file(file, cache / "file.bin")
    handler.stops_after, handler.resumes = None, False
    download_file(file, cache / "file.bin")
    assert (cache / "file.bin").read_bytes() == CONTENT


def test_what_had_come_whole_is_taken(host, cache):
    handler, url = host
    file = replace(FILE, urls=(url,))
    handler.stops_after = 10_240 - 1
    with pytest.raises(InputError, match="ended after 10,239"):
        download_file(file, cache / "file.bin")
    (part,) = cache.glob("*.part")
    part.write_bytes(CONTENT)
    handler.stops_after = None
    download_file(file, cache / "file.bin")
    assert handler.asked[-1] == "bytes=10240-"
    assert (cache / "file.bin").read_bytes() == CONTENT


@pytest.mark.parametrize("known", [{"sha256": SHA256}, {"sha256": "", "md5": MD5}])
def test_another_content_is_thrown_away_and_the_next_host_asked(known, host, cache):
    handler, url = host
    handler.content = b"<html>quota exceeded</html>"
    file = replace(FILE, urls=(url,), **known)
    with pytest.raises(InputError, match="another checksum than published and was thrown away"):
        download_file(file, cache / "file.bin")
    assert list(cache.iterdir()) == []


def test_an_error_of_the_host_is_said(host, cache):
    handler, url = host
    handler.status = 404
    with pytest.raises(InputError, match=r"HTTP Error 404.*; .*no answer .*: put it at .*sha256"):
        download_file(replace(FILE, urls=(url, dead_address())), cache / "file.bin")


def test_a_file_without_an_address_says_who_has_it(cache):
    file = PublishedFile("file.bin", by_hand="a friend")
    with pytest.raises(InputError, match="cannot be fetched by a program: get it from a friend"):
        find_file("set", file, Access(download=True))


def test_a_fetched_file_that_fails_its_checks_is_not_kept_as_the_file(host, cache, tmp_path):
    handler, url = host
    path = tmp_path / "a.npz"
    np.savez(path, images=robot_images()[::-1])
    layout = replace(SMALL_ROBOT, file=replace(SMALL_ROBOT.file, urls=(url,), by_hand=""))
    bad = robot_images()
    np.random.default_rng(0).shuffle(bad)
    np.savez(path, images=bad)
    handler.content = path.read_bytes()
    with pytest.raises(InputError, match="they are shuffled"):
        open_mpi3d(layout, Access(download=True))
    assert not (cache / layout.grid.name / layout.file.name).exists()
    np.savez(path, images=robot_images())
    handler.content = path.read_bytes()
    dataset = open_mpi3d(layout, Access(download=True))
    assert (cache / layout.grid.name / layout.file.name).is_file()
    assert dataset.checksum() == open_mpi3d(layout, Access()).checksum()
    assert [p.suffix for p in sorted((cache / layout.grid.name).iterdir())] == [".npz", ".toml"]


def test_without_the_file_the_error_says_what_to_put_where(cache):
    with pytest.raises(InputError) as refusal:
        load("shapes3d")
    said = str(refusal.value)
    assert (
        f"put it at {cache / 'shapes3d' / '3dshapes.h5'} (267,573,662 bytes, sha256 0a0f6" in said
    )
    assert "download=yes" in said
    with pytest.raises(InputError, match="no checksum is published: the first load records one"):
        load("faces")
    with pytest.raises(InputError, match="md5 55889cb7c7dfc655d6e0277beee88868 for an earlier up"):
        load("mpi3d_toy")
    with pytest.raises(InputError, match="is not at /nowhere/3dshapes.h5: put it at"):
        load("shapes3d", path="/nowhere/3dshapes.h5")
    assert not cache.exists()


def test_a_file_with_another_checksum_is_refused_unless_it_is_wanted(tmp_path, cache):
    path = write_h5(tmp_path / "3dshapes.h5", shape_arrays())
    layout = replace(SMALL_SHAPES, file=replace(SMALL_SHAPES.file, sha256=SHA256))
    with pytest.raises(InputError, match=f"expected sha256 {SHA256}, the published checksum, but"):
        open_shapes3d(layout, Access(str(path)))
    assert not cache.exists()
    dataset = open_shapes3d(layout, Access(str(path), unverified=True))
    assert dataset.provenance["confirmed by"].startswith("nothing but its content")
    assert "distinct images" in dataset.provenance["checks"]
    with pytest.raises(InputError, match="say unverified=yes to accept it by its content"):
        open_shapes3d(layout, Access(str(path)))
    write_h5(path, {**shape_arrays(), "images": shuffle(shape_arrays()["images"])})
    with pytest.raises(InputError, match="they are shuffled"):
        open_shapes3d(layout, Access(str(path), unverified=True))


@pytest.mark.parametrize("kind", ["sha256", "md5"])
def test_a_published_checksum_vouches_for_the_content(kind, tmp_path):
    path = write_h5(tmp_path / "3dshapes.h5", shape_arrays())
    digest = getattr(hashlib, kind)(path.read_bytes()).hexdigest()
    layout = replace(SMALL_SHAPES, file=replace(SMALL_SHAPES.file, **{kind: digest}))
    dataset = open_shapes3d(layout, Access(str(path)))
    assert dataset.provenance["confirmed by"] == f"the published {kind}"


def test_an_earlier_checksum_confirms_but_does_not_refuse(tmp_path):
    path = tmp_path / SMALL_ROBOT.file.name
    np.savez(path, images=robot_images())
    for md5, said in (
        (hashlib.md5(path.read_bytes()).hexdigest(), "the published md5 of an earlier upload"),
        (MD5, "the checksum recorded at its first load"),
    ):
        layout = replace(SMALL_ROBOT, file=replace(SMALL_ROBOT.file, md5=md5, earlier=True))
        forget_seen(layout.grid.name)
        assert open_mpi3d(layout, Access(str(path))).provenance["confirmed by"] == said


def test_where_no_checksum_is_known_the_first_is_recorded(tmp_path, cache):
    path = tmp_path / SMALL_ROBOT.file.name
    np.savez(path, images=robot_images())
    open_mpi3d(SMALL_ROBOT, Access(str(path)))
    record = toml.read(cache / "mpi3d_real_complex" / f"{path.name}.toml")
    assert record["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert list(record["seen"]) == [str(path)]
    other = tmp_path / "other" / path.name
    other.parent.mkdir()
    brighter = robot_images()
    brighter[:, 3, 3] += 1
    np.savez(other, images=brighter)
    with pytest.raises(InputError, match="no checksum of it is published, and it is not the file"):
        open_mpi3d(SMALL_ROBOT, Access(str(other)))
    np.savez(path, images=brighter)
    with pytest.raises(InputError, match=f"expected sha256 {record['sha256']}, recorded then, but"):
        open_mpi3d(SMALL_ROBOT, Access(str(path)))
    (cache / "mpi3d_real_complex" / f"{path.name}.toml").unlink()
    open_mpi3d(SMALL_ROBOT, Access(str(path)))


def test_a_file_is_hashed_once_and_again_when_it_changes(tmp_path, monkeypatch):
    from untwist.datasets import found_file

    path = write_h5(tmp_path / "3dshapes.h5", shape_arrays())
    open_shapes3d(SMALL_SHAPES, Access(str(path)))
    hashed = []
    real = found_file._hash
    monkeypatch.setattr(
        found_file, "_hash", lambda path, *, md5: hashed.append(path) or real(path, md5=md5)
    )
    open_shapes3d(SMALL_SHAPES, Access(str(path)))
    assert hashed == []
    path.touch()
    open_shapes3d(SMALL_SHAPES, Access(str(path)))
    forget_seen("shapes3d")
    open_shapes3d(SMALL_SHAPES, Access(str(path)))
    monkeypatch.setattr(found_file, "CHECKS", CHECKS + 1)
    open_shapes3d(SMALL_SHAPES, Access(str(path)))
    assert hashed == [path] * 3


def test_a_damaged_array_in_the_cache_is_refused(tmp_path, cache):
    path = write_h5(tmp_path / "3dshapes.h5", shape_arrays())
    open_shapes3d(SMALL_SHAPES, Access(str(path)))
    (made,) = cache.rglob("*.npy")
    good = made.read_bytes()
    for content in (good[:-5], good[:50], b"", good[:70] + good[90:]):
        made.write_bytes(content)
        with pytest.raises(InputError, match="delete it, and the next load makes it anew"):
            open_shapes3d(SMALL_SHAPES, Access(str(path)))
    made.unlink()
    open_shapes3d(SMALL_SHAPES, Access(str(path)))


def test_what_a_killed_process_left_is_swept_away(tmp_path, cache):
    path = write_h5(tmp_path / "3dshapes.h5", shape_arrays())
    open_shapes3d(SMALL_SHAPES, Access(str(path)))
    (made,) = cache.rglob("*.npy")
    made.unlink()
    old, new = (made.with_name(f".{made.name}.{end}") for end in ("old", "new"))
    for left in (old, new):
        left.write_bytes(b"half")
    os.utime(old, (0, 0))
    open_shapes3d(SMALL_SHAPES, Access(str(path)))
    assert made.exists()
    assert new.exists()
    assert not old.exists()


def test_a_damaged_record_is_refused(tmp_path, cache):
    path = write_h5(tmp_path / "3dshapes.h5", shape_arrays())
    open_shapes3d(SMALL_SHAPES, Access(str(path)))
    (record,) = cache.rglob("*.toml")
    record.write_text("sha256 = ")
    with pytest.raises(InputError, match="is damaged: expected TOML"):
        open_shapes3d(SMALL_SHAPES, Access(str(path)))
    record.write_text("sha256 = 'x'\n")
    with pytest.raises(InputError, match="expected sha256, confirmed, version, checks and seen"):
        open_shapes3d(SMALL_SHAPES, Access(str(path)))


def test_a_disk_without_room_is_said_before_anything_is_written(
    tmp_path, monkeypatch, nothing_kept
):
    from untwist.datasets import unpack

    path = write_h5(tmp_path / "3dshapes.h5", shape_arrays())
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(unpack.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(InputError, match="needs 0.0 GB, but only 0.0 GB are free there: make room"):
        open_shapes3d(SMALL_SHAPES, Access(str(path)))


def test_availability_says_what_is_here(cache):
    assert availability("circles") == "drawn"
    assert availability("sprites") == "twin, drawn"
    assert availability("mnist") == "real, missing"
    (cache / "dsprites").mkdir(parents=True)
    (cache / "dsprites" / "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz").write_bytes(b"")
    assert availability("dsprites") == "real, here"
    (cache / "mnist").mkdir()
    (cache / "mnist" / "train-images-idx3-ubyte").write_bytes(b"")
    assert availability("mnist") == "real, in part"
    assert is_here("mnist", PublishedFile("train-images-idx3-ubyte"))
