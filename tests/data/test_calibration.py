from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from pytest_winml.data import digits
from pytest_winml.data.calibration import (
    EmbeddedData,
    FileData,
    RandomData,
    calibration_source,
    gather,
    read_feeds,
    write_feeds,
)
from pytest_winml.errors import BuildError, InfrastructureError, UsageProblem
from pytest_winml.records.artifact import TensorSpec

if TYPE_CHECKING:
    from pathlib import Path

IMAGE = TensorSpec(name="image", dtype="float32", shape=(1, 1, 8, 8))
STATE = TensorSpec(name="state/past", dtype="int64", shape=(1,), low=0, high=9)


def save(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def images(count: int = 10) -> Any:
    return np.random.default_rng(1).random((count, 1, 1, 8, 8), dtype=np.float32)


def test_an_embedded_models_own_data_are_its_training_images() -> None:
    chosen = gather(EmbeddedData("digits-cnn"), [IMAGE], samples=32, seed=0)
    known = {image.tobytes() for image in digits.calibration().images}
    assert chosen.samples == 32
    assert len({sample.tobytes() for sample in chosen.arrays["image"]} & known) >= 31  # two images may be equal


def test_files_give_their_samples_by_input_name(tmp_path: Path) -> None:
    given = {"image": images(3), "state/past": np.array([[1], [2], [3]])}
    chosen = gather(FileData(save(tmp_path / "f.npz", **given)), [IMAGE, STATE], samples=3, seed=7)
    assert all(np.array_equal(chosen.arrays[name], given[name]) for name in given)


def test_a_folder_has_one_file_per_input(tmp_path: Path) -> None:
    second = TensorSpec(name="mask", dtype="bool", shape=(1, 4))
    np.save(tmp_path / "image.npy", images(2))
    np.save(tmp_path / "mask.npy", np.zeros((2, 1, 4), dtype=bool))
    assert gather(FileData(tmp_path), [IMAGE, second], samples=2, seed=0).samples == 2


def test_a_folder_may_hold_one_file_per_sample_of_the_only_input(tmp_path: Path) -> None:
    for place, sample in enumerate(images(4)):
        np.save(tmp_path / f"sample{place}.npy", sample)
    assert np.array_equal(gather(FileData(tmp_path), [IMAGE], samples=4, seed=0).arrays["image"], images(4))


def test_a_single_array_feeds_the_only_input(tmp_path: Path) -> None:
    np.save(tmp_path / "all.npy", images(4))
    assert gather(FileData(tmp_path / "all.npy"), [IMAGE], samples=4, seed=0).samples == 4


def test_random_data_obey_the_inputs(tmp_path: Path) -> None:
    chosen = gather(RandomData(), [IMAGE, STATE], samples=50, seed=3)
    assert chosen.arrays["image"].shape == (50, 1, 1, 8, 8)
    assert chosen.arrays["state/past"].dtype == np.int64
    assert set(chosen.arrays["state/past"].ravel()) <= set(range(10))


def test_the_seed_decides_which_samples_are_drawn_and_none_twice(tmp_path: Path) -> None:
    source = FileData(save(tmp_path / "f.npz", image=images(20)))
    first, again, other = (gather(source, [IMAGE], samples=8, seed=seed) for seed in (0, 0, 1))
    assert first.digest == again.digest != other.digest
    assert len({sample.tobytes() for sample in first.arrays["image"]}) == 8


def test_the_digest_is_of_the_samples_and_not_of_their_file(tmp_path: Path) -> None:
    np.save(tmp_path / "all.npy", images(4))
    a = gather(FileData(tmp_path / "all.npy"), [IMAGE], samples=4, seed=0)
    b = gather(FileData(save(tmp_path / "f.npz", image=images(4))), [IMAGE], samples=4, seed=5)
    changed = images(4)
    changed[3, 0, 0, 7, 7] += 1e-6
    c = gather(FileData(save(tmp_path / "g.npz", image=changed)), [IMAGE], samples=4, seed=0)
    assert a.digest == b.digest != c.digest


def test_the_same_samples_are_written_as_the_same_bytes(tmp_path: Path) -> None:
    written = [
        write_feeds(RandomData(), [IMAGE, STATE], samples=5, seed=1, path=tmp_path / name) for name in ("a", "b.npz")
    ]
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert written[0].digest == written[1].digest
    assert written[0].samples == 5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b.npz"]


def test_what_is_written_reads_back_even_for_inputs_with_awkward_names(tmp_path: Path) -> None:
    awkward = [TensorSpec(name=name, dtype="float32", shape=(2,)) for name in ("file", "a/b:0", "allow_pickle")]
    feeds = write_feeds(RandomData(), awkward, samples=3, seed=1, path=tmp_path / "feeds.npz")
    assert {name: array.shape for name, array in read_feeds(tmp_path / "feeds.npz", awkward).items()} == {
        spec.name: (3, 2) for spec in awkward
    }
    assert feeds.path == str(tmp_path / "feeds.npz")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"picture": images()}, "input 'image' is missing"),
        ({"image": images(), "picture": images()}, "unknown input 'picture'"),
        ({"image": images().astype(np.float64)}, "input 'image' is float64, the model takes float32"),
        ({"image": images()[:, 0]}, r"samples of shape \(1, 8, 8\), the model takes \(1, 1, 8, 8\)"),
        ({"image": np.float32(1)}, "samples of shape"),
        ({"image": images()[:0]}, "holds no sample"),
        ({"image": np.where(images() > 0.99, np.float32("nan"), images())}, "of input 'image' holds NaN or infinity"),
    ],
)
def test_samples_that_do_not_fit_are_refused(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    path = save(tmp_path / "f.npz", **arrays)
    with pytest.raises(BuildError, match=message) as caught:
        gather(FileData(path), [IMAGE], samples=1, seed=0)
    assert str(path) in caught.value.message
    with pytest.raises(BuildError, match=message):
        read_feeds(path, [IMAGE])


def test_the_sample_with_nan_is_named(tmp_path: Path) -> None:
    bad = images(4)
    bad[2, 0, 0, 3, 3] = np.inf
    with pytest.raises(BuildError, match="sample 2 of input 'image'"):
        gather(FileData(save(tmp_path / "f.npz", image=bad)), [IMAGE], samples=4, seed=0)


def test_inputs_with_unlike_numbers_of_samples_are_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "f.npz", image=images(3), **{"state/past": np.zeros((2, 1), dtype=np.int64)})
    with pytest.raises(BuildError, match=r"unlike numbers of samples \('image' 3, 'state/past' 2\)"):
        gather(FileData(path), [IMAGE, STATE], samples=1, seed=0)


def test_more_samples_than_there_are_is_an_error_that_counts_them(tmp_path: Path) -> None:
    path = save(tmp_path / "f.npz", image=images(10))
    with pytest.raises(BuildError, match="holds 10 samples, and 11 were asked for") as caught:
        gather(FileData(path), [IMAGE], samples=11, seed=0)
    assert "Calibration(samples=10)" in str(caught.value.remedy)
    with pytest.raises(BuildError, match="holds 1437 samples, and 2000"):
        gather(EmbeddedData("digits-vit"), [IMAGE], samples=2000, seed=0)


def test_zero_samples_are_no_calibration() -> None:
    with pytest.raises(BuildError, match="0 calibration samples"):
        gather(RandomData(), [IMAGE], samples=0, seed=0)


def test_a_size_without_a_value_takes_any(tmp_path: Path) -> None:
    loose = TensorSpec(name="image", dtype="float32", shape=("batch", 1, 8, 8))
    assert gather(FileData(save(tmp_path / "f.npz", image=images(2))), [loose], samples=2, seed=0).samples == 2
    with pytest.raises(BuildError, match="random data cannot be made for input 'image'"):
        gather(RandomData(), [loose], samples=2, seed=0)


def test_an_input_of_unknown_rank_takes_samples_of_any_shape_and_no_random_ones(tmp_path: Path) -> None:
    loose = TensorSpec(name="image", dtype="float32", shape=None)
    assert gather(FileData(save(tmp_path / "f.npz", image=images(2))), [loose], samples=2, seed=0).samples == 2
    with pytest.raises(BuildError, match="input 'image', which has no shape in the file"):
        gather(RandomData(), [loose], samples=2, seed=0)


def test_a_file_that_is_not_there_or_no_archive_is_named(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=re.escape(f"{tmp_path / 'none.npz'} does not exist")):
        gather(FileData(tmp_path / "none.npz"), [IMAGE], samples=1, seed=0)
    for content in (b"", b"not an archive", save(tmp_path / "f.npz", image=images(3)).read_bytes()[:300]):
        (tmp_path / "broken.npz").write_bytes(content)
        with pytest.raises(BuildError, match=re.escape(f"{tmp_path / 'broken.npz'} cannot be read")):
            gather(FileData(tmp_path / "broken.npz"), [IMAGE], samples=1, seed=0)


def test_pickled_objects_are_never_loaded(tmp_path: Path) -> None:
    path = save(tmp_path / "f.npz", image=np.array([{"any": "object"}], dtype=object))
    with pytest.raises(BuildError, match="cannot be read"):
        gather(FileData(path), [IMAGE], samples=1, seed=0)


def test_a_folder_that_does_not_fit_says_how_to_name_its_files(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"holds no \.npy file"):
        gather(FileData(tmp_path), [IMAGE], samples=1, seed=0)
    np.save(tmp_path / "sample0.npy", images(1)[0])
    with pytest.raises(BuildError, match="input 'image' is missing"):
        gather(FileData(tmp_path), [IMAGE, STATE], samples=1, seed=0)
    np.save(tmp_path / "sample1.npy", images(1)[0, 0])
    with pytest.raises(BuildError, match=r"sample1\.npy: input 'image' has samples of shape"):
        gather(FileData(tmp_path), [IMAGE], samples=1, seed=0)


def test_random_data_are_chosen_and_never_fallen_back_to(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="brings no data set") as caught:
        calibration_source("model", embedded=None, rootdir=tmp_path)
    assert 'Calibration(data="random")' in str(caught.value.remedy)
    assert calibration_source("random", embedded="digits-cnn", rootdir=tmp_path) == RandomData()
    assert calibration_source("model", embedded="digits-cnn", rootdir=tmp_path) == EmbeddedData("digits-cnn")
    assert calibration_source("d/f.npz", embedded=None, rootdir=tmp_path) == FileData(tmp_path / "d" / "f.npz")


def test_an_embedded_model_nobody_knows_is_a_usage_error() -> None:
    with pytest.raises(UsageProblem, match="did you mean 'digits-cnn'"):
        gather(EmbeddedData("digits-cn"), [IMAGE], samples=1, seed=0)


def test_a_folder_that_cannot_be_written_to_is_infrastructure(tmp_path: Path) -> None:
    chosen = gather(RandomData(), [IMAGE], samples=1, seed=0)
    with pytest.raises(InfrastructureError, match="cannot be written"):
        chosen.write(tmp_path / "no such folder" / "feeds.npz")
