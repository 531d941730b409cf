"""Training objectives: ``make_loss("squared_hinge", margin=0.5)(scores, labels)``."""

from trainables.losses.common import Loss, LossError, OneClassError
from trainables.losses.own import on_classes
from trainables.losses.registry import make_loss, pair_weight, register_loss

__all__ = ["Loss", "LossError", "OneClassError", "make_loss", "on_classes", "pair_weight", "register_loss"]
