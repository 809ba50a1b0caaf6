"""What a finished run trained, and the data that it trained on."""

from pathlib import Path

from untwist.datasets import Dataset
from untwist.perturbation import load_dataset
from untwist.store import Run, open_run
from untwist.training import Population, load_population
from untwist.types import InputError


def open_trained(path: Path, task: str) -> tuple[Run, Population, Dataset]:
    """Returns a finished run, its population and its data, made again and known by checksum.

    Args:
        path: The run's directory.
        task: What the user could do from Python where the data cannot be made again.
    """
    run = open_run(path)
    population = load_population(run)
    dataset = load_dataset(run.config["spec"]["dataset"], **run.config["spec"]["options"])
    if dataset.checksum() != run.config["data"]["checksum"]:
        raise InputError(
            f"the data of {run.path} are not those that the catalog makes now: {task} from Python "
            "with the dataset that the run was given"
        )
    return run, population, dataset
