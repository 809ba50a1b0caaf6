"""Ways to damage arrays, each a function from the good one to the bad one."""

import numpy as np


def assign(index, value):
    """Writes a value to some places."""

    def change(array):
        array[index] = value
        return array

    return change


def take(order):
    """Takes rows in another order, or some of them."""
    return lambda array: array[order]


def shuffle(array):
    """Shuffles the rows."""
    return array[np.random.default_rng(0).permutation(len(array))]


def repeat_last(array):
    """Adds the last row once more."""
    return np.concatenate([array, array[-1:]])


def swap(first, second):
    """Swaps two columns."""

    def change(array):
        array[:, [first, second]] = array[:, [second, first]]
        return array

    return change


def cut(path, share):
    """Cuts a file off after a share of its bytes."""
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    return path
