"""Exact linear models in float64, and the theorems of the five papers as checks that run."""

from untwist.theory.ascent import maximize
from untwist.theory.axes import principal_axes
from untwist.theory.checks import CHECKS, UNCHECKED, Check, check
from untwist.theory.curve import Curve, disentangling_curve, paper_mixing
from untwist.theory.evidence import Evidence
from untwist.theory.hessian import best_covariance, best_variances
from untwist.theory.inference_error import free_inference_error, inference_error
from untwist.theory.linear_terms import Terms, optimal_terms, terms_of
from untwist.theory.linear_vae import LinearVAE, linear_beta_vae, optimal_encoder
from untwist.theory.ppca import PPCA, ppca
from untwist.theory.precision import descend, least_log_loss, least_loss, least_loss_unrotated
from untwist.theory.prediction import Prediction, predict
from untwist.theory.pushforward import independence_gap
from untwist.theory.statements import Statement, statements
from untwist.theory.symmetry import gaussian_elbo, rotation_cost

__all__ = [
    "CHECKS",
    "PPCA",
    "UNCHECKED",
    "Check",
    "Curve",
    "Evidence",
    "LinearVAE",
    "Prediction",
    "Statement",
    "Terms",
    "best_covariance",
    "best_variances",
    "check",
    "descend",
    "disentangling_curve",
    "free_inference_error",
    "gaussian_elbo",
    "independence_gap",
    "inference_error",
    "least_log_loss",
    "least_loss",
    "least_loss_unrotated",
    "linear_beta_vae",
    "maximize",
    "optimal_encoder",
    "optimal_terms",
    "paper_mixing",
    "ppca",
    "predict",
    "principal_axes",
    "rotation_cost",
    "statements",
    "terms_of",
]
