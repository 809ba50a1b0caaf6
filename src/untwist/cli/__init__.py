"""The command line: parse, call, print. One module a command, loaded when it is called.

A module of this room either is one command (its `main` is called with the words that follow) or
holds several in `COMMANDS`. A command returns its exit code, None for 0. Mistakes of the user,
which the rooms raise as `InputError`, become one sentence on standard error and exit code 2.
"""

import importlib
import importlib.metadata
import sys
from collections.abc import Sequence

from untwist.types import InputError, nearest

DESCRIPTIONS = {
    "demo": "see the point of the field in three minutes: six kinds of model on small sprites",
    "train": "train a population of models, or resume one",
    "score": "score the members of a run with every metric",
    "explain": "explain why the members of a run are disentangled, or are not",
    "runs": "list, show, compare and query what was trained",
    "data": "list, describe, draw, check, import and export datasets",
    "perturb": "make the dataset that hides the convenient variance, with its controls",
    "theory": "solve linear models exactly, check every theorem, predict axes from data",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `untwist` with these arguments, the process's own by default; returns its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help"):
        print(_help())
        return 0
    if words[0] == "--version":
        print(importlib.metadata.version("untwist"))
        return 0
    try:
        return _call(words[0], words[1:]) or 0
    except InputError as error:
        print(f"untwist: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        sys.stderr.close()
        return 0


def _call(name: str, words: list[str]) -> int | None:
    """Loads and runs one command."""
    if name not in DESCRIPTIONS:
        raise nearest("command", name, DESCRIPTIONS)
    module = importlib.import_module(f"untwist.cli.{name}")
    if not hasattr(module, "COMMANDS"):
        return module.main(words)
    if words and not words[0].startswith("-") and words[0] not in module.COMMANDS:
        raise nearest(f"command of untwist {name}", words[0], module.COMMANDS)
    from tyro.extras import subcommand_cli_from_dict

    return subcommand_cli_from_dict(
        module.COMMANDS, prog=f"untwist {name}", description=module.__doc__, args=words
    )


def _help() -> str:
    """What `untwist --help` prints."""
    lines = [f"  {name:<8}{text}" for name, text in DESCRIPTIONS.items()]
    return "\n".join(
        [
            "usage: untwist COMMAND [OPTIONS]",
            "",
            "A laboratory for disentanglement in variational autoencoders.",
            "",
            *lines,
            "",
            "untwist COMMAND --help explains a command. untwist --version prints the version.",
        ]
    )
