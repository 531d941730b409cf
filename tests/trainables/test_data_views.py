import numpy as np
import torch
from PIL import Image
from torchvision import transforms

from trainables.data.augment import evaluation_view, flip_mask, paper_view
from trainables.data.content import ArrayImages, ImageSplit, PackedImages

RNG = np.random.RandomState(0)
PICTURE = RNG.randint(0, 256, (50, 70, 3), dtype=np.uint8)


def test_the_paper_view_is_torchvisions_under_that_seed():
    reference = transforms.Compose(
        [transforms.RandomResizedCrop(32), transforms.RandomHorizontalFlip(), transforms.RandAugment(2, 9)]
    )
    for draw in (0, 1, 2**62 + 5):
        torch.manual_seed(draw)
        expected = np.asarray(reference(Image.fromarray(PICTURE)))
        assert (paper_view(PICTURE, 32, draw) == expected).all()


def test_views_are_pure_functions_and_leave_the_global_generator_alone():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    first = paper_view(PICTURE, 32, 11)
    torch.rand(5)
    assert (paper_view(PICTURE, 32, 11) == first).all()
    assert any((paper_view(PICTURE, 32, draw) != first).any() for draw in range(12, 15))
    torch.set_rng_state(before)
    paper_view(PICTURE, 32, 11)
    assert torch.equal(torch.get_rng_state(), before)


def test_flips_are_fair_and_uncorrelated_with_consecutive_draws():
    flips = flip_mask(np.arange(20_000))
    assert abs(flips.mean() - 0.5) < 0.02
    assert abs((flips[1:] == flips[:-1]).mean() - 0.5) < 0.02


def split_of(images, size, augmentation):
    n = 6
    return ImageSplit(np.zeros(n, np.int64), np.arange(n)[::-1].copy(), images, size, augmentation)


def test_fetch_gives_the_rows_asked_for_flipped_by_their_own_draw():
    array = RNG.randint(0, 256, (6, 8, 8, 1), dtype=np.uint8)
    split = split_of(ArrayImages(array), None, "flip")
    draws = np.array([4, 9, 4])
    batch = split.fetch(np.array([0, 2, 5]), draws)
    assert batch.dtype == torch.uint8
    assert batch.shape == (3, 1, 8, 8)
    for place, row in enumerate([5, 3, 0]):
        wanted = array[row, :, ::-1, 0] if flip_mask(draws)[place] else array[row, :, :, 0]
        assert (batch[place, 0].numpy() == wanted).all()
    plain = split.fetch(np.array([0]), None)
    assert (plain[0, 0].numpy() == array[5, :, :, 0]).all()
    assert array.flags.writeable
    again = split.fetch(np.array([5, 0]), np.array([4, 4]))
    assert torch.equal(again[0], batch[2])
    assert torch.equal(again[1], batch[0])


def test_packed_images_of_several_sizes_come_out_in_one():
    shapes = np.array([(20 + i, 30 - i, 3) for i in range(6)])
    images = [RNG.randint(0, 256, tuple(shape), dtype=np.uint8) for shape in shapes]
    offsets = np.concatenate([[0], np.cumsum(shapes.prod(1))])
    packed = PackedImages(np.concatenate([image.ravel() for image in images]), offsets, shapes, 3)
    split = split_of(packed, 16, "paper")
    evaluated = split.fetch(np.array([1]), None)[0].permute(1, 2, 0).numpy()
    assert (evaluated == evaluation_view(images[4], 16)).all()
    trained = split.fetch(np.array([1, 2]), np.array([5, 6]))
    assert (trained[1].permute(1, 2, 0).numpy() == paper_view(images[3], 16, 6)).all()
