"""Cards of the paper's multiclass and multilabel tasks (its section B.6).

Counts by class where they are known before the data are seen; a split with one number counts its examples in all.
Multilabel tasks, ImageNet-LT and iNaturalist 2018 do that in every split, and say in ``options["outputs"]`` how many
outputs a model has.
"""

from __future__ import annotations

from search_spaces.cards import TaskCard

_CIFAR_TERMS = "no licence stated; the terms of its project page"
_AIRBUS = ["A318", "A319", "A320", "A321", "A330-200", "A330-300"]
_MAMMALS = ["camel", "cattle", "chimpanzee", "elephant", "kangaroo"]
_VEHICLES = [
    "bicycle",
    "bus",
    "motorcycle",
    "pickup_truck",
    "train",
    "lawn_mower",
    "rocket",
    "streetcar",
    "tank",
    "tractor",
]


def _cifar(name: str, title: str, classes: list[str], train: tuple[int, ...]) -> TaskCard:
    each = (50,) * len(classes)
    return TaskCard(
        name=name,
        title=title,
        modality="image",
        revision="1",
        source="CIFAR-100 (Krizhevsky 2009)",
        licence=_CIFAR_TERMS,
        construction=f"{', '.join(classes)}; exponential profile from 200 down to 20 training images, in this order.",
        positive="",
        negative="",
        counts={"train": train, "validation": each, "test": each},
        split="training images drawn by seed from the official training file; the official test file halved by seed "
        "(our choice)",
        seeded=True,
        loader="cifar100",
        options={"classes": classes, "image_size": 64},
        get="cifar-100-python.tar.gz, www.cs.toronto.edu/~kriz/cifar.html (torchvision downloads it)",
        metric="macro_ovo_auc",
    )


def _chexpert(name: str, title: str, labels: list[str]) -> TaskCard:
    return TaskCard(
        name=name,
        title=title,
        modality="image",
        revision="1",
        source="CheXpert (Irvin et al. 2019), the small release",
        licence="Stanford's research use agreement, by registration",
        construction=f"Labels {', '.join(labels)}; uncertain and missing are 0 (U-Zero); frontal and lateral views.",
        positive="",
        negative="",
        counts={"train": (12000,), "validation": (3000,), "test": (234,)},
        split="training and validation images drawn from train.csv by seed in whole patients; test: the official "
        "valid.csv",
        seeded=True,
        loader="chexpert",
        options={"labels": labels, "outputs": len(labels)},
        get="CheXpert-v1.0-small (train.csv, valid.csv and images), stanfordmlgroup.github.io/competitions/chexpert",
        metric="multilabel_macro_auc",
    )


CARDS = (
    TaskCard(
        name="airbus-6-lt",
        title="Aircraft Airbus-6 LT",
        modality="image",
        revision="1",
        source="FGVC-Aircraft, six Airbus variants (Maji et al. 2013)",
        licence="non-commercial research only; the photographers keep their copyright",
        construction=f"{', '.join(_AIRBUS)}; exponential profile from 30 down to 6 training images, in this order.",
        positive="",
        negative="",
        counts={
            "train": (30, 22, 16, 11, 8, 6),
            "validation": (200,),
            "test": (200,),
        },
        split="training images drawn by seed from the official training file; official validation and test files",
        seeded=True,
        loader="fgvc_aircraft",
        options={"classes": _AIRBUS, "image_size": 64},
        get="fgvc-aircraft-2013b.tar.gz, www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft (torchvision downloads it)",
        metric="macro_ovo_auc",
    ),
    _cifar("cifar-mammals-5-lt", "CIFAR-100 Medium-Mammals-5 LT", _MAMMALS, (200, 112, 63, 36, 20)),
    _cifar(
        "cifar-vehicles-10-lt",
        "CIFAR-100 Vehicles-10 LT",
        _VEHICLES,
        (200, 155, 120, 93, 72, 56, 43, 33, 26, 20),
    ),
    _chexpert(
        "chexpert-competition-5",
        "CheXpert Competition-5",
        ["Cardiomegaly", "Edema", "Consolidation", "Atelectasis", "Pleural Effusion"],
    ),
    _chexpert(
        "chexpert-cardiac-fluid-4",
        "CheXpert Cardiac/Fluid-4",
        ["Cardiomegaly", "Edema", "Atelectasis", "Pleural Effusion"],
    ),
    _chexpert(
        "chexpert-consolidation-cardiac-2",
        "CheXpert Consolidation/Cardiac-2",
        ["Consolidation", "Cardiomegaly"],
    ),
    TaskCard(
        name="inaturalist-2018",
        title="iNaturalist 2018",
        modality="image",
        revision="1",
        source="iNaturalist 2018 competition (Van Horn et al. 2018)",
        licence="the competition's data terms and each image's own licence",
        construction="All 8,142 classes, natural long tail.",
        positive="",
        negative="",
        counts={"train": (437513,), "validation": (0,), "test": (24426,)},
        split="official training file; test: the official validation file; no validation split",
        seeded=False,
        loader="inaturalist",
        options={"outputs": 8142},
        get="train_val2018.tar.gz, train2018.json and val2018.json, github.com/visipedia/inat_comp/tree/master/2018",
        metric="macro_ovo_auc",
    ),
    TaskCard(
        name="imagenet-lt",
        title="ImageNet-LT",
        modality="image",
        revision="1",
        source="ImageNet-LT split files (Liu et al. 2019) with the ILSVRC2012 images",
        licence="ImageNet terms: non-commercial research and education",
        construction="All 1,000 classes, natural long tail. The paper counts 115,845 valid training images, one fewer "
        "than the file lists.",
        positive="",
        negative="",
        counts={"train": (115846,), "validation": (20000,), "test": (50000,)},
        split="the ImageNet-LT files",
        seeded=False,
        loader="imagenet_lt",
        options={"outputs": 1000},
        get="ImageNet (ILSVRC2012) from image-net.org and the ImageNet_LT_{train,val,test}.txt files of its authors",
        metric="macro_ovo_auc",
    ),
)
"""The eight extension tasks in the order of section B.6."""
