"""The GPUs as nvidia-smi tells of them."""

from __future__ import annotations

import pytest
from conftest import World
from gipper.errors import BadHost, Unsuitable
from gipper.values.offers import GpuModel
from stubs.gpu_stubs import card
