"""keras_model.py save|load WEIGHTS PREDICTIONS - a small Keras model with bfloat16 and float32 layers: saves its
weights and what it predicts; or loads weights into a fresh one and compares its predictions."""
import sys

import keras
import numpy as np

from common import check

TOKENS, LENGTH = 4000, 16


def build(seed):
    keras.utils.set_random_seed(seed)
    layers = keras.layers
    return keras.Sequential([
        layers.Input((LENGTH,), dtype="int32"),
        layers.Embedding(TOKENS, 128, dtype="bfloat16"),
        layers.Flatten(),
        layers.Dense(256, activation="relu"),
        layers.Dense(64, dtype="bfloat16"),
        layers.LayerNormalization(),
        layers.Dense(10),
    ])


def predict(model):
    inputs = np.random.default_rng(1).integers(0, TOKENS, (32, LENGTH))
    return np.asarray(model.predict(inputs, verbose=0)).astype("<f4")


action, weights, predictions = sys.argv[1:]
if action == "save":
    model = build(1)
    model.save_weights(weights)
    np.save(predictions, predict(model))
else:
    model = build(2)
    wanted = np.load(predictions)
    check(predict(model).tobytes() != wanted.tobytes(), "other weights give the same predictions")
    model.load_weights(weights)
    check(predict(model).tobytes() == wanted.tobytes(), "the predictions differ")
