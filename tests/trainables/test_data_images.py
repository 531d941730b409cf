import numpy as np
import pytest
from PIL import Image
from torchvision import transforms

from search_spaces.errors import DataError
from trainables.data.images import decode, from_pil, resize, resize_and_crop


@pytest.fixture
def colours():
    return np.random.RandomState(0).randint(0, 256, (20, 30, 3), dtype=np.uint8)


def test_rgb_is_read_as_it_is(tmp_path, colours):
    Image.fromarray(colours).save(tmp_path / "a.png")
    pixels, note = decode(tmp_path / "a.png")
    assert note is None
    assert (pixels == colours).all()


def test_transparency_is_dropped_and_counted(tmp_path, colours):
    rgba = np.dstack([colours, np.full((20, 30), 7, np.uint8)])
    Image.fromarray(rgba).save(tmp_path / "a.png")
    pixels, note = decode(tmp_path / "a.png")
    assert note == "RGBA to RGB"
    assert (pixels == colours).all()


def test_palette_is_expanded(tmp_path):
    image = Image.new("P", (4, 2))
    image.putpalette([0, 0, 0, 10, 20, 30, 200, 100, 50])
    image.putdata([0, 1, 2, 1, 2, 2, 1, 0])
    for options in ({}, {"transparency": 0}):
        image.save(tmp_path / "a.png", **options)
        pixels, note = decode(tmp_path / "a.png")
        assert note == ("P to RGB")
        assert pixels[0, 1].tolist() == [10, 20, 30]
        assert pixels[1, 0].tolist() == [200, 100, 50]


def test_sixteen_bits_are_divided_by_256(tmp_path):
    values = np.array([[0, 255, 256], [32768, 65279, 65535]], dtype=np.uint16)
    Image.fromarray(values).save(tmp_path / "a.png")
    pixels, note = decode(tmp_path / "a.png", channels=1)
    assert note is not None
    assert note.startswith("I")
    assert pixels[:, :, 0].tolist() == [[0, 0, 1], [128, 254, 255]]


def test_grey_and_colour_convert_both_ways(tmp_path, colours):
    Image.fromarray(colours[:, :, 0]).save(tmp_path / "grey.png")
    pixels, note = decode(tmp_path / "grey.png")
    assert note == "L to RGB"
    assert (pixels == colours[:, :, :1]).all()
    Image.fromarray(colours).save(tmp_path / "colour.png")
    assert decode(tmp_path / "colour.png", channels=1)[0].shape == (20, 30, 1)


def test_unreadable_files_are_named(tmp_path, colours):
    whole = tmp_path / "whole.jpg"
    Image.fromarray(colours).save(whole)
    (tmp_path / "cut.jpg").write_bytes(whole.read_bytes()[:-200])
    (tmp_path / "text.jpg").write_text("no image")
    (tmp_path / "empty.jpg").write_bytes(b"")
    Image.fromarray(np.zeros((2, 2), np.float32)).save(tmp_path / "float.tiff")
    for name, why in [
        ("cut.jpg", "truncated"),
        ("text.jpg", "not a readable image"),
        ("empty.jpg", "not a readable image"),
        ("absent.jpg", "no such file"),
        ("float.tiff", "floating-point"),
    ]:
        with pytest.raises(DataError, match=rf"{name}.*{why}"):
            decode(tmp_path / name)


@pytest.mark.parametrize("shape", [(40, 61, 3), (61, 40, 3), (50, 50, 3), (333, 500, 3)])
def test_evaluation_geometry_is_torchvisions(shape):
    image = np.random.RandomState(1).randint(0, 256, shape, dtype=np.uint8)
    reference = transforms.Compose([transforms.Resize(37), transforms.CenterCrop(32)])
    assert (resize_and_crop(image, 37, 32) == from_pil(reference(Image.fromarray(image)))).all()
    assert resize(image, 24).shape == (24, 24, 3)
