"""Softmax regression, fast enough to fit every factor of every member of a population.

The same problem as `sklearn.linear_model.LogisticRegression` with default settings, and the same
optimum, but in single precision with a warm start on an eighth of the items.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.optimize import minimize

WARM_ITEMS = 2000


@dataclass(frozen=True)
class SoftmaxWeights:
    """A fitted classifier: one row of weights a level, the last column its intercept."""

    weights: Float[ndarray, "level column"]

    def logits(self, codes: Float[ndarray, "item latent"]) -> Float[ndarray, "item level"]:
        """Returns the score of every level at every item."""
        return codes @ self.weights[:, :-1].T + self.weights[:, -1]

    def predict(self, codes: Float[ndarray, "item latent"]) -> Int[ndarray, " item"]:
        """Returns the most probable level of every item."""
        return self.logits(codes).argmax(1)

    def probabilities(self, codes: Float[ndarray, "item latent"]) -> Float[ndarray, "item level"]:
        """Returns the probability of every level at every item."""
        logits = self.logits(codes)
        shares = np.exp(logits - logits.max(1, keepdims=True))
        return shares / shares.sum(1, keepdims=True)

    def loss(self, codes: Float[ndarray, "item latent"], levels: Int[ndarray, " item"]) -> float:
        """Returns the mean negative log probability of the true levels, in nats."""
        logits = self.logits(codes)
        top = logits.max(1)
        total = top + np.log(np.exp(logits - top[:, None]).sum(1))
        return float((total - logits[np.arange(len(levels)), levels]).mean())


@dataclass(frozen=True)
class SoftmaxRegression:
    """The settings of a fit: penalty times half the squared weights, summed loss over items."""

    penalty: float = 1.0
    balanced: bool = False
    iterations: int = 100
    tolerance: float = 1e-4

    def fit(
        self, codes: Float[ndarray, "item latent"], levels: Int[ndarray, " item"], size: int
    ) -> SoftmaxWeights:
        """Returns the weights of least penalized loss; intercepts are not penalized.

        >>> codes = np.array([[-1.0], [-2.0], [1.0], [2.0]])
        >>> fitted = SoftmaxRegression().fit(codes, np.array([0, 0, 1, 1]), 2)
        >>> fitted.predict(codes).tolist()
        [0, 0, 1, 1]
        """
        start = np.zeros((size, codes.shape[1] + 1))
        stride = len(codes) // WARM_ITEMS
        if stride > 1:
            start = self._minimize(codes[::stride], levels[::stride], start, len(codes))
        return SoftmaxWeights(self._minimize(codes, levels, start, len(codes)))

    def _minimize(
        self,
        codes: Float[ndarray, "item latent"],
        levels: Int[ndarray, " item"],
        start: Float[ndarray, "level column"],
        total: int,
    ) -> Float[ndarray, "level column"]:
        items, size = len(codes), len(start)
        inputs = np.concatenate([codes, np.ones((items, 1))], 1).astype(np.float32)
        transposed = np.ascontiguousarray(inputs.T)
        true = levels * items + np.arange(items)
        weight = np.full(items, 1 / items, dtype=np.float32)
        if self.balanced:
            counts = np.bincount(levels, minlength=size)
            weight = (1 / (np.maximum(counts, 1) * (counts > 0).sum()))[levels].astype(np.float32)
        shrink = np.full(start.shape, self.penalty / total)
        shrink[:, -1] = 0.0

        def objective(flat: Float[ndarray, " weight"]) -> tuple[float, Float[ndarray, " weight"]]:
            current = flat.reshape(start.shape)
            logits = current.astype(np.float32) @ transposed
            logits -= logits.max(0)
            picked = logits.reshape(-1)[true]
            np.exp(logits, out=logits)
            normalizer = logits.sum(0)
            loss = np.dot((np.log(normalizer) - picked).astype(np.float64), weight)
            logits *= weight / normalizer
            logits.reshape(-1)[true] -= weight
            gradient = (logits @ inputs).astype(np.float64) + shrink * current
            return float(loss + 0.5 * (shrink * current**2).sum()), gradient.ravel()

        options = {"maxiter": self.iterations, "gtol": self.tolerance, "ftol": 1e-12}
        found = minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", options=options)
        return found.x.reshape(start.shape)
