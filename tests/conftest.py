"""The tests import the package with its array shapes checked at run time."""

from jaxtyping import install_import_hook

install_import_hook("untwist", "beartype.beartype")
