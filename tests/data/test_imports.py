"""`import duet.data` is quick: heavy libraries wait until a source needs them."""

import subprocess
import sys

import pytest

HEAVY = ("mlxtend", "pandas", "datasets", "pyarrow", "huggingface_hub", "scipy", "sklearn", "matplotlib")


def loaded_after(code):
    """The heavy libraries that a new interpreter has loaded after running `code`."""
    script = f"import sys\n{code}\nprint(*(name for name in {HEAVY} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_importing_the_room_loads_no_heavy_library():
    assert loaded_after("import duet.data, duet.data.input") == []


def test_opening_the_digits_loads_none_either():
    assert loaded_after("import duet.data\nassert len(duet.data.open_images('digits')) == 4000") == []


def test_nor_does_a_folder_of_images(image_folder):
    assert (
        loaded_after(f"import duet.data\nassert len(duet.data.open_images({str(image_folder)!r}, 'all')) == 30") == []
    )


@pytest.mark.parametrize("library", ["datasets", "pandas"])
def test_the_check_can_fail(library):
    assert library in loaded_after(f"import {library}")
