"""Quiet TensorFlow; the same random numbers for every test."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import pytest


@pytest.fixture(autouse=True)
def seeded():
    import keras

    keras.utils.set_random_seed(0)
