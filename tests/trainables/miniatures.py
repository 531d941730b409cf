"""Miniatures of the sources, each in its real on-disk format: ``write(name, root)`` and the counts they support."""

import gzip
import json
import pickle

import numpy as np
import pandas as pd
import torch
from PIL import Image

RANDOM = np.random.RandomState(0)
LOW = {"train": (5, 4), "validation": (2, 2), "test": (3, 3)}


def image(path, size=(36, 44), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = RANDOM.randint(0, 256, (*size, 3), dtype=np.uint8)
    Image.fromarray(pixels).convert(mode).save(path)


def table(path, columns, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows, columns=columns).to_csv(path, index=False)


def stanford_dogs(root):
    """images.tar: Images/<wnid>-<breed>/<wnid>_<number>.jpg, with the Annotations folder of its sister archive."""
    base = root / "sources/stanford-dogs"
    breeds = {
        "n02109961-Eskimo_dog": 6, "n02111889-Samoyed": 8, "n02110185-Siberian_husky": 7, "n02110063-malamute": 6,
        "n02110958-pug": 3,
    }  # fmt: skip
    for folder, count in breeds.items():
        for i in range(count):
            image(base / "Images" / folder / f"{folder[:9]}_{100 + i}.jpg", (30 + i, 44))
            note = base / "Annotation" / folder / f"{folder[:9]}_{100 + i}"
            note.parent.mkdir(parents=True, exist_ok=True)
            note.write_text("<annotation/>")
    # 14 negative, 13 positive: 70/15/15 rounded half up
    return {"train": (10, 9), "validation": (2, 2), "test": (2, 2)}


def class_folders(source, *folders):
    def write(root):
        for folder in folders:
            for i in range(10):
                image(root / "sources" / source / folder / f"IMG ({i}).JPG", (40, 36))
        return LOW

    return write


def rice(root):
    for folder in ("Bacterial leaf blight", "Brown spot", "Leaf smut"):
        for i in range(9):
            image(root / "sources/rice-leaf-diseases/rice_leaf_diseases" / folder / f"DSC{i}.jpg")
    return {"train": (4, 4), "validation": (2, 2), "test": (3, 3)}


def aircraft(root):
    data = root / "sources/fgvc-aircraft-2013b/data"
    variants = ["CRJ-700", "CRJ-900", "A318", "A319", "A320", "A321", "A330-200", "A330-300", "Gulfstream IV", "DH-82"]
    number = 1_000_000
    for name, count in (("train", 8), ("val", 6), ("test", 5)):
        lines = []
        for variant in variants:
            for _ in range(count):
                number += 7
                lines.append(f"{number} {variant}")
                image(data / "images" / f"{number}.jpg", (40, 60))
        (data / f"images_variant_{name}.txt").write_text("\n".join(sorted(lines)) + "\n")


def crj(root):
    aircraft(root)
    return {"train": (5, 5), "validation": (3, 3), "test": (5, 5)}


def airbus(root):
    aircraft(root)
    return {"train": (8, 6, 5, 4, 3, 2), "validation": (36,), "test": (30,)}


def aptos(root):
    base = root / "sources/aptos2019"
    folders = ["No_DR", "Mild", "Moderate", "Severe", "Proliferate_DR"]
    rows = [(f"{i:012x}", i % 5) for i in range(60)]
    table(base / "train.csv", ["id_code", "diagnosis"], rows)
    for name, grade in rows:
        image(base / "colored_images" / folders[grade] / f"{name}.png", (44, 44))
    return {"train": (8, 17), "validation": (2, 4), "test": (2, 3)}  # 12 of grade 2, 24 of grades 3 and 4


def deepweeds(root):
    base = root / "sources/deepweeds"
    names = ["Chinee apple", "Lantana", "Parkinsonia", "Parthenium", "Prickly acacia", "Rubber vine", "Siam weed"]
    rows = []
    for i in range(77):
        name = f"201803{i:02d}-140314-0.jpg"
        rows.append((name, i % 7, names[i % 7]))
        image(base / "images" / name, (32, 32))
    table(base / "labels" / "labels.csv", ["Filename", "Label", "Species"], rows)
    table(base / "labels" / "train_subset0.csv", ["Filename", "Label", "Species"], rows[:9])
    return LOW


def ham10000(root):
    base = root / "sources/ham10000"
    rows = []
    for i in range(80):
        kind = ("nv", "nv", "mel", "bkl")[i % 4]
        lesion = f"HAM_{i // 8:04d}{i % 4}" if i < 48 else f"HAM_{i:07d}"
        rows.append((lesion, f"ISIC_{i:07d}", kind, "histo", 50.0, "male", "back"))
        image(base / f"HAM10000_images_part_{1 + i // 40}" / f"ISIC_{i:07d}.jpg", (45, 60))
    columns = ["lesion_id", "image_id", "dx", "dx_type", "age", "sex", "localization"]
    table(base / "HAM10000_metadata.csv", columns, rows)
    return {"train": (28, 14), "validation": (6, 3), "test": (6, 3)}  # of 40 and 20


def imagenet_lt(root):
    """24 dog classes of many, few and middling training images, 3 other classes; validation images flat."""
    lists = {"train": [], "val": [], "test": []}
    sizes = {151: 2, 152: 3, 160: 6, 200: 7, 268: 6, 250: 4, 150: 9, 269: 2, 999: 5}
    number = 0
    for label, count in sizes.items():
        wnid = f"n{2_000_000 + label:08d}"
        for split, many in (("train", count), ("val", 2), ("test", 3)):
            for i in range(many):
                number += 1
                flat = f"val/ILSVRC2012_val_{number:08d}.JPEG"
                name = flat if split == "test" else f"train/{wnid}/{wnid}_{number}.JPEG"
                place = f"val/{wnid}/ILSVRC2012_val_{number:08d}.JPEG" if split == "test" and label == 151 else name
                lists[split].append(f"{name} {label}")
                image(root / "sources/imagenet" / place, (38 + i, 50), "L" if number % 9 == 0 else "RGB")
    for split, lines in lists.items():
        path = root / "sources/imagenet-lt" / f"ImageNet_LT_{split}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")


def imagenet_dogs(root):
    imagenet_lt(root)
    return {"train": (19, 5), "validation": (6, 4), "test": (9, 6)}  # at most 3 against at least 6 images


def imagenet_whole(root):
    imagenet_lt(root)
    return {"train": (44,), "validation": (18,), "test": (27,)}


def goemotions(kind, test):
    def write(root):
        folder = root / "sources/go_emotions"
        folder.mkdir(parents=True)
        for part, count in (("train", 40), ("validation", 10), ("test", 12)):
            rows = []
            for i in range(count):
                labels = [[27], [3, 10], [14], [0, 14], [3]][i % 5]
                rows.append((f"{part} comment {i} about [NAME] \u2026", labels, f"e{part[:2]}{i:05d}"))
            if kind == "parquet":
                table = pd.DataFrame(rows, columns=["text", "labels", "id"])
                table.to_parquet(folder / f"{part}-00000-of-00001.parquet")
            else:
                lines = ["\t".join((text, ",".join(map(str, labels)), name)) for text, labels, name in rows]
                name = {"validation": "dev"}.get(part, part)
                (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return {"train": (21, 14), "validation": (3, 2), "test": test}

    return write


def _sentences(part, i):
    # Words shared with the premise vary from row to row.
    premise = f"A {part} person number {i} walks a brown dog near the river"
    return premise, " ".join(premise.split()[: 3 + i % 7]) + f" guess {i}"


def anli(kind):
    def write(root):
        base = root / "sources/anli"
        for part, count in (("train", 45), ("dev", 18), ("test", 18)):
            for number in (1, 3):
                rows = [(f"u{i}", *_sentences(f"{part} r{number}", i), i % 3, "") for i in range(count)]
                if kind == "parquet":
                    base.mkdir(parents=True, exist_ok=True)
                    frame = pd.DataFrame(rows, columns=["uid", "premise", "hypothesis", "label", "reason"])
                    frame.to_parquet(base / f"{part}_r{number}-00000-of-00001.parquet")
                else:
                    path = base / "anli_v1.0" / f"R{number}" / f"{part}.jsonl"
                    path.parent.mkdir(parents=True, exist_ok=True)
                    lines = [
                        {"uid": uid, "context": a, "hypothesis": b, "label": "enc"[label], "model_label": "n"}
                        for uid, a, b, label, _ in rows
                    ]
                    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return {"train": (15, 15), "validation": (6, 6), "test": (6, 6)}

    return write


def snli(kind):
    def write(root):
        base = root / "sources/snli"
        base.mkdir(parents=True)
        for part, count in (("train", 80), ("validation", 40), ("test", 40)):
            rows = [(*_sentences(part, i), (0, 1, 2, -1)[i % 4]) for i in range(count)]
            if kind == "parquet":
                pd.DataFrame(rows, columns=["premise", "hypothesis", "label"]).to_parquet(
                    base / f"{part}-00000-of-00001.parquet"
                )
            else:
                names = ["entailment", "neutral", "contradiction", "-"]
                name = {"validation": "dev"}.get(part, part)
                lines = [
                    {"gold_label": names[label], "sentence1": a, "sentence2": b, "pairID": "x"} for a, b, label in rows
                ]
                (base / f"snli_1.0_{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return {"train": (9, 9), "validation": (4, 4), "test": (4, 4)}

    return write


def wanli(root):
    base = root / "sources/wanli"
    base.mkdir(parents=True)
    for part, count in (("train", 120), ("test", 30)):
        rows = []
        for i in range(count):
            premise, hypothesis = _sentences(part, i)
            gold = ("contradiction", "entailment", "neutral")[i % 3]
            rows.append({"id": i, "premise": premise, "hypothesis": hypothesis, "gold": gold, "genre": "generated"})
        (base / f"{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"train": (20, 20), "validation": (4, 3), "test": (10, 10)}


def cifar(root):
    base = root / "sources/cifar-100-python"
    base.mkdir(parents=True)
    names = ["apple", "bicycle", "bus", "camel", "cattle", "chimpanzee", "elephant", "kangaroo", "lawn_mower"]
    names += ["motorcycle", "pickup_truck", "rocket", "streetcar", "tank", "tractor", "train"]
    (base / "meta").write_bytes(pickle.dumps({b"fine_label_names": [name.encode() for name in names]}, protocol=2))
    for part, each in (("train", 8), ("test", 6)):
        fine = [label for label in range(len(names)) for _ in range(each)]
        content = {
            b"data": RANDOM.randint(0, 256, (len(fine), 3072), dtype=np.uint8),
            b"fine_labels": fine,
            b"coarse_labels": fine,
            b"filenames": [f"thing_s_{i % 50:06d}.png".encode() for i in range(len(fine))],
            b"batch_label": b"training batch 1 of 1",
        }
        (base / part).write_bytes(pickle.dumps(content, protocol=2))


def cifar_mammals(root):
    cifar(root)
    return {"train": (8, 6, 4, 3, 2), "validation": (3,) * 5, "test": (3,) * 5}


def cifar_vehicles(root):
    cifar(root)
    return {"train": (8, 7, 6, 5, 5, 4, 3, 3, 2, 2), "validation": (3,) * 10, "test": (3,) * 10}


def cifar_ten(root):
    base = root / "sources/cifar-10-batches-py"
    base.mkdir(parents=True)
    names = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    (base / "batches.meta").write_bytes(pickle.dumps({b"label_names": [name.encode() for name in names]}, protocol=2))
    for number, file in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        labels = [(i + number) % 10 for i in range(20)]
        content = {
            b"batch_label": b"training batch 1 of 5",
            b"labels": labels,
            b"data": RANDOM.randint(0, 256, (20, 3072), dtype=np.uint8),
            b"filenames": [f"thing_s_{i:06d}.png".encode() for i in range(20)],
        }
        (base / file).write_bytes(pickle.dumps(content, protocol=2))
    return {"train": (7,) * 10, "validation": (3,) * 10, "test": (2,) * 10}


def fashion(suffix):
    def write(root):
        base = root / "sources/FashionMNIST/raw"
        base.mkdir(parents=True)
        for name, count in (("train", 100), ("t10k", 20)):
            pixels = RANDOM.randint(0, 256, (count, 28, 28), dtype=np.uint8)
            labels = (np.arange(count) % 10).astype(np.uint8)
            for kind, values in (("images-idx3", pixels), ("labels-idx1", labels)):
                header = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, dtype=">u4").tobytes()
                data = header + values.tobytes()
                path = base / f"{name}-{kind}-ubyte{suffix}"
                path.write_bytes(gzip.compress(data) if suffix else data)
        return {"train": (7,) * 10, "validation": (3,) * 10, "test": (2,) * 10}

    return write


def chexpert(root):
    base = root / "sources/chexpert/CheXpert-v1.0-small"
    labels = [
        "No Finding", "Enlarged Cardiomediastinum", "Cardiomegaly", "Lung Opacity", "Lung Lesion", "Edema",
        "Consolidation", "Pneumonia", "Atelectasis", "Pneumothorax", "Pleural Effusion", "Pleural Other", "Fracture",
        "Support Devices",
    ]  # fmt: skip
    columns = ["Path", "Sex", "Age", "Frontal/Lateral", "AP/PA", *labels]
    for part, name, patients in (("train", "train.csv", 24), ("valid", "valid.csv", 5)):
        rows = []
        for patient in range(patients):
            for view in range(1 + patient % 3):
                inside = f"{part}/patient{64500 + patient:05d}/study1/view{view + 1}_frontal.jpg"
                values = [("", "1.0", "0.0", "-1.0")[(patient + view + i) % 4] for i in range(14)]
                if part == "valid":
                    values = [{"": "0.0", "-1.0": "1.0"}.get(value, value) for value in values]
                rows.append((f"CheXpert-v1.0-small/{inside}", "Male", 60, "Frontal", "AP", *values))
                image(base / inside, (39, 32), "L")
        table(base / name, columns, rows)
    return {"train": (20,), "validation": (9,), "test": (9,)}


def inaturalist(root):
    base = root / "sources/inaturalist-2018"
    number = 0
    for name, count in (("train2018", 12), ("val2018", 6)):
        images, annotations = [], []
        for i in range(count):
            number += 1
            file = f"train_val2018/Plantae/{i % 3}/{number:032x}.jpg"
            images.append({"id": number, "file_name": file, "width": 50, "height": 40})
            annotations.append({"id": number, "image_id": number, "category_id": (i % 3) * 4000})
            image(base / file, (40, 50))
        content = {"info": {}, "categories": [], "images": images, "annotations": annotations}
        (base / f"{name}.json").write_text(json.dumps(content))
    return {"train": (12,), "validation": (0,), "test": (6,)}


BINARY = {
    "imagenet-lt-dogs": imagenet_dogs,
    "dog-breeds": stanford_dogs,
    "crj700-crj900": crj,
    "aptos": aptos,
    "deepweeds": deepweeds,
    "apple-disease": class_folders("d-kap", "APPLE ROT LEAVES", "HEALTHY LEAVES", "LEAF BLOTCH", "SCAB LEAVES"),
    "rice-disease": rice,
    "ham10000": ham10000,
    "ham10000-by-lesion": ham10000,
    "goemotions-annoyance": goemotions("parquet", (7, 5)),
    "goemotions-fear": goemotions("tsv", (8, 4)),
    "anli-r1-en": anli("parquet"),
    "anli-r3-cn": anli("jsonl"),
    "anli-r3-en": anli("parquet"),
    "snli-high-overlap": snli("parquet"),
    "wanli-cn": wanli,
    "wanli-en": wanli,
}
EXTENSIONS = {
    "airbus-6-lt": airbus,
    "cifar-mammals-5-lt": cifar_mammals,
    "cifar-vehicles-10-lt": cifar_vehicles,
    "cifar-10": cifar_ten,
    "fashion-mnist": fashion(".gz"),
    "chexpert-competition-5": chexpert,
    "chexpert-cardiac-fluid-4": chexpert,
    "chexpert-consolidation-cardiac-2": chexpert,
    "inaturalist-2018": inaturalist,
    "imagenet-lt": imagenet_whole,
}
OPTIONS = {"imagenet-lt-dogs": {"tail_at_most": 3, "head_at_least": 6}}


WORDS = ["the", "cat", "sat", "on", "a", "mat", "dog", "ran", "far", "away", "good", "bad", "film", "plot"]

TEXT_MODELS = {
    "distilbert-base-uncased": {
        "model_type": "distilbert", "dim": 32, "hidden_dim": 64, "n_heads": 4, "n_layers": 2, "vocab_size": 40,
        "max_position_embeddings": 64, "pad_token_id": 0, "architectures": ["DistilBertForMaskedLM"],
    },
    "qwen2.5-1.5b-instruct": {
        "model_type": "qwen2", "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4,
        "num_key_value_heads": 2, "num_hidden_layers": 2, "vocab_size": 400, "max_position_embeddings": 64,
        "tie_word_embeddings": True, "architectures": ["Qwen2ForCausalLM"],
    },
}  # fmt: skip


def write_text_model(name, root):
    """Write a tiny model of the real class, its weights and a tokenizer of the real class under ``root/weights``."""
    import transformers

    folder = root / "weights" / name
    folder.mkdir(parents=True)
    qwen = "qwen" in name
    if qwen:
        # Byte-level BPE without a pad token, as Qwen's is but for the pad token.
        base = transformers.Qwen2Tokenizer(pad_token=None).train_new_from_iterator(
            [" ".join(WORDS)] * 50, vocab_size=350, length=50
        )
        base.pad_token = None
        base.save_pretrained(folder)
    else:
        vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])}
        transformers.DistilBertTokenizer(vocab=vocabulary).save_pretrained(folder)
    settings = dict(TEXT_MODELS[name])
    config = transformers.AutoConfig.for_model(settings.pop("model_type"), **settings)
    torch.manual_seed(77)
    kind = transformers.AutoModelForCausalLM if qwen else transformers.AutoModelForMaskedLM
    kind.from_config(config).save_pretrained(folder)
    assert json.loads((folder / "config.json").read_text())["model_type"] == TEXT_MODELS[name]["model_type"]
