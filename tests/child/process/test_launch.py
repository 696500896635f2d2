"""What a Child looks at before it starts a process."""

import pytest

from afo.errors import NotFound
from afo_child.process import launch


def test_a_preload_that_works_and_one_that_does_not() -> None:
    launch.check_preload({"LD_PRELOAD": "libm.so.6"})
    with pytest.raises(NotFound, match=r"libnowhere\.so"):
        launch.check_preload({"LD_PRELOAD": "libm.so.6:libnowhere.so"})
