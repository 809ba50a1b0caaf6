"""What is known of the files that the authors of datasets publish: names, addresses, checksums."""

from dataclasses import dataclass

CVDF = "https://storage.googleapis.com/cvdf-datasets/mnist/"
OSSCI = "https://ossci-datasets.s3.amazonaws.com/mnist/"
FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
KUZUSHIJI = "http://codh.rois.ac.jp/kmnist/dataset/kmnist/"
NORB = "https://cs.nyu.edu/~ylclab/data/norb-v1.0-small/"
SPRITES = "https://github.com/deepmind/dsprites-dataset/raw/master/"
MPI3D = "https://huggingface.co/datasets/waleedgondal/mpi3d/resolve/main/"
MPI3D_OLD = "https://storage.googleapis.com/disentanglement_dataset/Final_Dataset/"


@dataclass(frozen=True)
class PublishedFile:
    """A file as it is published.

    Attributes:
        name: Its name, also in the cache.
        urls: Where it can be fetched from, the best first.
        size: Bytes; 0 where unknown.
        sha256: Where it is known.
        md5: Where it is known.
        content_sha256: The sha256 of what a .gz unpacks to, which repacking does not change.
        earlier: Whether the checksum is that of an earlier upload, so that it may confirm the file
            but another one proves nothing.
        by_hand: Where a person gets it, if no address serves it to a program.
    """

    name: str
    urls: tuple[str, ...] = ()
    size: int = 0
    sha256: str = ""
    md5: str = ""
    content_sha256: str = ""
    earlier: bool = False
    by_hand: str = ""

    @property
    def checksum(self) -> str:
        """The published checksum as text; empty where none is known."""
        if self.sha256:
            return f"sha256 {self.sha256}"
        return f"md5 {self.md5}" if self.md5 else ""

    @property
    def binding(self) -> bool:
        """Whether a file with another checksum is not this one."""
        return bool(self.checksum) and not self.earlier


IDX_NAMES = {
    ("train", "images"): "train-images-idx3-ubyte.gz",
    ("train", "labels"): "train-labels-idx1-ubyte.gz",
    ("test", "images"): "t10k-images-idx3-ubyte.gz",
    ("test", "labels"): "t10k-labels-idx1-ubyte.gz",
}


def _idx_files(
    hosts: tuple[str, ...], facts: list[tuple[int, str, str, str]]
) -> dict[tuple[str, str], PublishedFile]:
    """The four files of a set like MNIST: size, sha256, md5 and sha256 of the content of each."""
    return {
        part: PublishedFile(name, tuple(host + name for host in hosts), *fact)
        for (part, name), fact in zip(IDX_NAMES.items(), facts, strict=True)
    }


MNIST_FILES = _idx_files(
    (CVDF, OSSCI),
    [
        (
            9_912_422,
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        ),
        (
            28_881,
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "d53e105ee54ea40749a09fcbcd1e9432",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        ),
        (
            1_648_877,
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "9fb629c4189551a2d022fa330f9573f3",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        ),
        (
            4_542,
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            "ec29112dd5afa0611ce80d1b7f02629c",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
    ],
)

FASHION_MNIST_FILES = _idx_files(
    (FASHION,),
    [
        (
            26_421_880,
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        ),
        (
            29_515,
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "25c81989df183df01b3e8a0aad5dffbe",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        ),
        (
            4_422_102,
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "bef4ecab320f06d8554ea6380940ec79",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        ),
        (
            5_148,
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            "bb300cfdad3c16e7a12a480ee83cd310",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
    ],
)

KMNIST_FILES = _idx_files(
    (KUZUSHIJI,),
    [
        (
            18_165_135,
            "51467d22d8cc72929e2a028a0428f2086b092bb31cfb79c69cc0a90ce135fde4",
            "bdb82020997e1d708af4cf47b453dcf7",
            "",
        ),
        (
            29_497,
            "e38f9ebcd0f3ebcdec7fc8eabdcdaef93bb0df8ea12bee65224341c8183d8e17",
            "e144d726b3acfaa3e44228e80efcd344",
            "",
        ),
        (
            3_041_136,
            "edd7a857845ad6bb1d0ba43fe7e794d164fe2dce499a1694695a792adfac43c5",
            "5c965bf0a639b31b8f53240b1b52f4d7",
            "",
        ),
        (
            5_120,
            "20bb9a0ef54c7db3efc55a92eef5582c109615df22683c380526788f98e42a1c",
            "7320c461ea6c1c855c0b718fb2a4b134",
            "",
        ),
    ],
)

DSPRITES_NPZ = PublishedFile(
    "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz",
    (SPRITES + "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz",),
    md5="7da33b31b13a06f4b04a70402ce90c2e",
)
DSPRITES_HDF5 = PublishedFile(
    "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.hdf5",
    (SPRITES + "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.hdf5",),
    28_024_106,
    "729fa22e884c9c500e1f17415d580746b4c5894fbbb780a1319bbcfa39a745bb",
    "b331c4447a651c44bf5e8ae09022e230",
)
SHAPES3D_H5 = PublishedFile(
    "3dshapes.h5",
    ("https://storage.googleapis.com/3d-shapes/3dshapes.h5",),
    267_573_662,
    "0a0f6ed98baff276a50f3a081a7434d788da63cb135a98189b2a5b5769be1785",
    "099a2078d58cec4daad0702c55d06868",
)
MPI3D_FILES = {
    variant: PublishedFile(
        f"mpi3d_{variant}.npz",
        (f"{MPI3D}mpi3d_{variant}.npz", f"{MPI3D_OLD}mpi3d_{variant}.npz"),
        md5=md5,
        earlier=True,
    )
    for variant, md5 in {
        "toy": "55889cb7c7dfc655d6e0277beee88868",
        "realistic": "59a6225b88b635365f70c91b3e52f70f",
        "real": "0f33f609918fb5c97996692f91129802",
    }.items()
}
MPI3D_COMPLEX = PublishedFile(
    "real3d_complicated_shapes_ordered.npz",
    by_hand="https://drive.google.com/file/d/1Tp8eTdHxgUMtsZv5uAoYAbJR1BOa_OQm",
)
CARS3D_ARCHIVE = PublishedFile(
    "nips2015-analogy-data.tar.gz",
    ("http://www.scottreed.info/files/nips2015-analogy-data.tar.gz",),
    md5="4e866a7919c1beedf53964e6f7a23686",
)
CELEBA_ARCHIVE = PublishedFile(
    "img_align_celeba.zip",
    size=1_443_490_838,
    sha256="46fb89443c578308acf364d7d379fe1b9efb793042c0af734b6112e4fd3a8c74",
    md5="00d2c5bc6d35e252742224ab0c1e8fcb",
    by_hand="https://drive.google.com/file/d/0B7EVK8r0v71pZjFTYXZWM3FlRnM",
)
CELEBA_ATTRIBUTES = PublishedFile(
    "list_attr_celeba.txt",
    size=26_721_026,
    md5="75e246fa4810816ffd6ee81facbd244c",
    by_hand="https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html",
)
FACES_PTH = PublishedFile(
    "basel_face_renders.pth",
    by_hand="the authors of beta-TCVAE (chen2018), who give it out under the Basel Face Model's "
    "licence",
)


def _norb(name: str, size: int, sha256: str, md5: str) -> PublishedFile:
    """One of the six files of SmallNORB."""
    return PublishedFile(name, (NORB + name,), size, sha256, md5)


NORB_STEMS = {
    "train": "smallnorb-5x46789x9x18x6x2x96x96-training",
    "test": "smallnorb-5x01235x9x18x6x2x96x96-testing",
}
SMALLNORB_FILES = {
    ("train", "dat"): _norb(
        f"{NORB_STEMS['train']}-dat.mat.gz",
        131_896_188,
        "5ffd6272a07d32695ee1082a26a41a93a37aab8c28da047f8c34ed348d214873",
        "66054832f9accfe74a0f4c36a75bc0a2",
    ),
    ("train", "cat"): _norb(
        f"{NORB_STEMS['train']}-cat.mat.gz",
        348,
        "2784e542c1922060691090952b6cd6278879a216c90f81476f0f00256d42cdaa",
        "23c8b86101fbf0904a000b43d3ed2fd9",
    ),
    ("train", "info"): _norb(
        f"{NORB_STEMS['train']}-info.mat.gz",
        71_052,
        "de7eb932ebe7a4ee16217fead60660d0eb3d23632c2f4d1c51f88c501c17bf32",
        "51dee1210a742582ff607dfd94e332e3",
    ),
    ("test", "dat"): _norb(
        f"{NORB_STEMS['test']}-dat.mat.gz",
        130_799_817,
        "cf7104eed3e51174d2f65b66d1e5878b9da233b886f161b0d88f4510ba2c7474",
        "e4ad715691ed5a3a5f138751a4ceb071",
    ),
    ("test", "cat"): _norb(
        f"{NORB_STEMS['test']}-cat.mat.gz",
        347,
        "ecaf6d5bb8c3bc5eab9cf0258f6d2198dd474e016e374836fc097f2e5ff509ff",
        "5aa791cd7e6016cf957ce9bdb93b8603",
    ),
    ("test", "info"): _norb(
        f"{NORB_STEMS['test']}-info.mat.gz",
        10_428,
        "16adf314226327ee006d1a44db8cfef52773c06c829951d5653a9f6f310248a2",
        "a9454f3864d7fd4bb3ea7fc3eb84924e",
    ),
}
