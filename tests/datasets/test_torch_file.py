"""Tensors out of files of torch.save, and pickles that must not be run."""

import base64
import pickle
import zipfile
import zlib

import numpy as np
import pytest
from real_files import (
    Reduced,
    Storage,
    tensor,
    torch_pickle,
    write_torch_legacy,
    write_torch_zip,
)

from untwist.datasets.inspection import Inspection
from untwist.datasets.torch_file import describe_pickle, map_tensor
from untwist.types import InputError

ARRAY = (np.arange(96) % 251).astype(np.uint8).reshape(6, 1, 4, 4)

# What PyTorch 2.13 itself writes for ARRAY, in both layouts.
WRITTEN_BY_TORCH = {
    "zip": (
        b"c-o~@OH<QO6uxOgQi8SxQ64I&_y`Im=`#fpjTptKv>;gV5keX<V`#a_1xHuTI4<0}bm7L0|G=GF-8s5);m(y"
        b"S7ybcn8VO0jGU~~6?j$|mcfND-os{G#2|z3cwnP$i0M*j&8|(T=RYhuQ^?@mgaj+1GClL+RaaKxMLxyQHil"
        b"r~D8D>>Mdd;p|%6giCfMqK*X0&mpx~xOOg)rhHq|ds~7#OJ#IE91JN)(^k>KY{FMFd;QGGJv&CS+135u{i-"
        b"i7!$n5Tu`LTHQ2t4H@;C%}iTW-O{U*hK3jz8=Qfy2r@IUEme}~*!!1Lh1ZzZ`IY|Iau?|KT29@oTPrG3)^*"
        b"Fq{F2xi>f8<9VSoGM>r+QP(UiRx6gJs^&q7g6W4X4X*N`M;wk@zj<g<=|iHGoe1eb_370?bQJON91_H}1sk~"
        b"sD+bvME^5HfW~!?W>kJru4&HPsLYX9BJo;UsbNKLh|G5+z$GI@Zdx?b;nrB-=aobne~P)!oy(|G>e%{zHe43"
        b">-an`~*9A^3>39YJ}s{nQSg!5Q?K?r^nAsoINL=pS&Plyfk%LzH;^2bg4Wudwp*HM&;(ht=o6*Do$sX{h_>w"
        b"wJ$d9ECB|*&OFof@6=j`aVmUzwLG`;`|AVgO#?NCXX}=M9rRdrRzNYTl9>9-S@O9;THuSt9M226Y(AUe(s?d"
        b"Z%n3Omn-_{)M#u|%p^$b|zWb7R!(tt5LnYye^>q3dEV)H__&X9t`xmGyfc)u0hgLF7;$MQ^07;nuO*Svg<2Q"
        b"19fakN1$6KH<-0zln06rf9A@7H=ejg+PSS|{}?h1qbuct2ne&GXeZ=8}$Q9~Oxiw=88I&^*{+*2Uk6XP0x(U"
        b"g1degRu37ehDl-P~VO<6jK"
    ),
    "legacy": (
        b"c-n1G*G|Jg5Olc|juv|F&9p#52)%a>2!wW26PyzmS$5VwBY}j(Bk&D;0Kdj3Ao0La9@&*v+S%Ei*+=CCTc5A"
        b"XAI&#!+cnWgW%FGX^#LS}MkGnfxej*>$I@?^>zR%XvLMhxF|ka}Ev7R&Yi4Xvo+uU|zsoV*Gw+!P>H{E+1_bC"
        b"`J1&O+QK%|9)8-H)h@$Tsj(r6of_z_S8r*S>>!|K?)AF$HvP<8zvN~tB=eYW991Bkx4SgRJ%*+)7`F91+-*L"
        b"A4i(yb`k)Vtv;>lz@Hk2G5jU^JG{zw}+9}v0N5@vRYq>&(z2_i`N(MUujA~J{2vmySqn8C%n9!|Mg=CbUfX>b"
        b"hT?lk0az-h=AhR;CyPfN~3FQmVa6%_@7p>Q6~FDNW3j+B&^l~+_&RoB$k)i*RYHMg|3wRd!OY27`&ef`ma!B~"
        b"7KF`OJ39UGsRoSL4Qots}+Tv}dPU0Wv`n_H>vo%HVB{=p$VIzBl)JJ-Je(am&D"
    ),
}
WRITERS = {"zip": write_torch_zip, "legacy": write_torch_legacy}


def look(path="file"):
    """An inspection of a file."""
    return Inspection(str(path))


@pytest.mark.parametrize("layout", WRITTEN_BY_TORCH)
def test_what_pytorch_wrote_is_read(layout, tmp_path):
    path = tmp_path / "tensor.pth"
    path.write_bytes(zlib.decompress(base64.b85decode(WRITTEN_BY_TORCH[layout])))
    found = map_tensor(path, look(path))
    np.testing.assert_array_equal(found, ARRAY)
    assert found.dtype == np.uint8
    assert isinstance(found, np.memmap)


@pytest.mark.parametrize("layout", WRITERS)
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("Byte", "u1"), ("Float", "f4"), ("Double", "f8"), ("Long", "i8"), ("Half", "f2")],
)
def test_every_type_of_number_is_read(layout, kind, dtype, tmp_path):
    array = ARRAY.astype(dtype)
    path = WRITERS[layout](
        tmp_path / "tensor.pth",
        array,
        tensor(array, kind=f"torch.{kind}Storage", view=(None,) * (layout == "legacy")),
    )
    np.testing.assert_array_equal(map_tensor(path, look(path)), array)


def test_one_tensor_in_a_list_or_a_table_is_read(tmp_path):
    for held in ([tensor(ARRAY)], {"images": tensor(ARRAY), "note": "text"}, (tensor(ARRAY), 3)):
        path = write_torch_zip(tmp_path / "tensor.pth", ARRAY, held)
        np.testing.assert_array_equal(map_tensor(path, look(path)), ARRAY)


class Explosive:
    """What fails a test when it is unpickled."""

    def __reduce__(self):
        return exec, ("raise SystemError('a pickle was run')",)


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_that_would_run_code_is_refused_and_not_run(protocol, tmp_path):
    content = pickle.dumps({"images": Explosive()}, protocol)
    with pytest.raises(SystemError, match="a pickle was run"):
        pickle.loads(content)
    path = tmp_path / "tensor.pth"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("faces/data.pkl", content)
    with pytest.raises(
        InputError,
        match="would call (builtins|__builtin__) exec|pth: its pickle has the instruction D",
    ):
        map_tensor(path, look(path))


HOSTILE = {
    "a call of the system": (Reduced("os.system", ("echo",)), "would call os system"),
    "a call inside": ([tensor(ARRAY), Reduced("os.system", ("echo",))], "would call os system"),
    "another rebuilder": (
        tensor(ARRAY, rebuild="torch._utils._rebuild_from_type"),
        "would call torch._utils _rebuild_from_type",
    ),
    "a foreign storage": (tensor(ARRAY, kind="evil.ByteStorage"), "of a kind that is not known"),
    "no tensor": ({"a": 1}, "expected one tensor, but the file holds 0"),
    "two tensors": ([tensor(ARRAY), tensor(ARRAY)], "expected one tensor, but the file holds 2"),
    "a bare storage": (Storage(("storage", "x", "0", "cpu", 4)), "holds .*, not a tensor"),
    "too few arguments": (
        Reduced("torch._utils._rebuild_tensor_v2", ()),
        "of a kind that is not known here",
    ),
    "a view": (tensor(ARRAY.reshape(6, 4, 4).swapaxes(1, 2)), "a view of another, not a whole"),
    "more than there is": (tensor(np.zeros((7, 1, 4, 4), np.uint8)), "expected 112 numbers"),
}


@pytest.mark.parametrize("layout", WRITERS)
@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_plain_tensor_is_refused(layout, name, tmp_path):
    described, message = HOSTILE[name]
    path = WRITERS[layout](tmp_path / "tensor.pth", ARRAY, described)
    with pytest.raises(InputError, match=f"{message}|expected .* numbers"):
        map_tensor(path, look(path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "damaged|no end"),
        (b"\x80\x02N", "damaged|no end"),
        (b"\x80\x02.", "damaged"),
        (b"\x80\x02]K\x01a.", None),
        (b"\x80\x02K\x01K\x02s.", "damaged"),
        (b"\x80\x02h\x05.", "damaged"),
        (b"\x80\x02t.", "damaged"),
        (b"\x80\x02NR.", "damaged"),
        (b"\x80\x02cos\nsystem\n)R}b.", "instruction BUILD, which a tensor does not need"),
        (b"(ios\nsystem\n.", "instruction INST, which a tensor does not need"),
        (b"\x80\x02cos\nsystem\n)\x81.", "instruction NEWOBJ, which a tensor does not need"),
        (b"Pname\n.", "instruction PERSID, which a tensor does not need"),
        (b"\xff\xff", "damaged"),
    ],
)
def test_pickles_by_hand(content, message):
    if message is None:
        assert describe_pickle(content, look()) == [1]
        return
    with pytest.raises(InputError, match=message):
        describe_pickle(content, look())


def test_big_endian_numbers_are_refused(tmp_path):
    path = write_torch_legacy(tmp_path / "tensor.pth", ARRAY, little=False)
    with pytest.raises(InputError, match="not in little-endian order"):
        map_tensor(path, look(path))
    path = write_torch_zip(tmp_path / "tensor.zip", ARRAY)
    content = path.read_bytes().replace(b"little", b"biggie")
    path.write_bytes(content)
    with pytest.raises(InputError, match="damaged|not in little-endian order"):
        map_tensor(path, look(path))


def test_another_pickle_is_not_a_file_of_pytorch(tmp_path):
    path = tmp_path / "tensor.pth"
    path.write_bytes(torch_pickle(5) + torch_pickle(6))
    with pytest.raises(InputError, match="which begins with 0x1950a86a20f9469cfc6c and 1001, but"):
        map_tensor(path, look(path))
