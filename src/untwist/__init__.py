"""Untwist: a laboratory for disentanglement in variational autoencoders.

Import a room, not the root: `untwist.datasets`, `untwist.models`, `untwist.objectives`,
`untwist.training`, `untwist.store`. Importing changes nothing global.
"""

__version__ = "0.1.0"
