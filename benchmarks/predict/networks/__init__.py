"""Eighty-four small networks that no calibration draws, fourteen of each family, chosen by hand at sizes people use.

Calibration draws channels, widths, lengths and images from lists (``elastane.predict.calibration.networks``); all but
four of these networks have sizes that are on none of them.  Most are measured at one batch, because the batches of a
network err alike; the first two of each family at two.
"""

from __future__ import annotations

from benchmarks.predict.networks.images import Plain, Residuals, Separable
from benchmarks.predict.networks.sequences import Layers, Lstm, Transformer
from elastane.predict.job import JobFactory

FAMILIES: dict[str, dict[str, tuple[JobFactory, tuple[int, ...]]]] = {
    "CNN": {
        "vgg8": (Plain(((32, 2), (64, 2), (128, 2)), (256,)), (4, 64)),
        "lenet": (Plain(((12, 1), (32, 1)), (160, 84), kernel=5, pad=False, smooth=True), (16, 64)),
        "vgg5": (Plain(((20, 2), (40, 1)), (120,), size=28), (16,)),
        "vgg6": (Plain(((40, 1), (80, 1), (160, 2)), (200,)), (16,)),
        "vgg7": (Plain(((56, 2), (112, 2), (112, 1)), (192,), sgd=True), (4,)),
        "vgg_wide": (Plain(((72, 1), (144, 2)), (96,), size=20), (16,)),
        "vgg_large": (Plain(((12, 1), (28, 1), (56, 2), (112, 1)), (128,), size=80), (4,)),
        "lenet_wide": (Plain(((20, 1), (50, 1)), (500,), size=28, kernel=5, pad=False), (64,)),
        "lenet_deep": (Plain(((10, 2), (20, 2), (40, 1)), (100, 50), size=40, smooth=True), (64,)),
        "quick": (Plain(((36, 1), (36, 1), (72, 1)), (72,), kernel=5, sgd=True), (64,)),
        "vgg_tall": (Plain(((24, 1), (48, 1), (80, 1), (112, 1)), (144,), size=72), (16,)),
        "vgg_head": (Plain(((28, 1), (56, 1)), (600, 300), size=24, sgd=True), (4,)),
        "lenet_small": (Plain(((8, 1), (18, 1)), (60,), size=36, kernel=5, smooth=True, sgd=True), (16,)),
        "lenet_seven": (Plain(((18, 1), (44, 1)), (90,), size=40, kernel=7), (4,)),
    },
    "residual": {
        "resnet8": (Residuals((16, 3, 1), ((16, 1), (32, 2), (64, 2))), (4, 64)),
        "resnet12": (
            Residuals((24, 5, 2), ((40, 1), (40, 1), (80, 2), (80, 1), (112, 2)), size=64, pool=True),
            (4, 16),
        ),
        "resnet_narrow": (Residuals((10, 3, 1), ((10, 1), (20, 2), (20, 1), (40, 2), (40, 1))), (64,)),
        "resnet_wide": (Residuals((40, 3, 1), ((80, 2), (160, 2)), sgd=True), (16,)),
        "resnet_odd": (Residuals((18, 3, 1), ((36, 2), (72, 2), (72, 1)), size=36, sgd=True), (16,)),
        "resnet_large": (Residuals((20, 7, 2), ((20, 1), (40, 2), (80, 2)), size=96, pool=True), (16,)),
        "resnet_flat": (Residuals((28, 3, 2), ((28, 1), (28, 1), (28, 1), (28, 1)), size=40), (64,)),
        "resnet_steep": (Residuals((32, 3, 2), ((72, 2), (144, 2), (144, 1)), size=56), (4,)),
        "resnet_many": (Residuals((56, 3, 1), ((56, 2), (112, 2)), size=20, classes=200), (64,)),
        "resnet_thin": (Residuals((12, 3, 1), ((12, 1), (24, 2), (44, 2)), size=44, sgd=True), (4,)),
        "resnet_tall": (Residuals((16, 5, 2), ((36, 2), (52, 2), (88, 2)), size=112), (4,)),
        "resnet_twice": (Residuals((20, 3, 1), ((40, 2), (40, 1), (40, 1), (80, 2)), size=28), (16,)),
        "resnet_square": (Residuals((80, 3, 2), ((80, 1), (80, 1)), size=24, sgd=True), (16,)),
        "resnet_pooled": (Residuals((36, 3, 1), ((36, 1), (72, 2)), size=48, pool=True, sgd=True), (64,)),
    },
    "separable": {
        "mobile": (Separable((16, 3, 2), ((32, 1), (64, 2), (64, 1), (128, 2)), size=64), (4, 64)),
        "mobile_wide": (Separable((40, 3, 1), ((80, 2), (80, 1), (160, 2), (160, 1))), (4, 16)),
        "mobile_thin": (Separable((12, 3, 1), ((20, 1), (40, 2), (72, 2))), (64,)),
        "mobile_large": (Separable((20, 3, 2), ((40, 1), (80, 2), (80, 1), (160, 2)), size=96), (16,)),
        "mobile_deep": (
            Separable((20, 3, 2), ((36, 1), (36, 1), (72, 2), (72, 1), (72, 1), (144, 2)), size=56),
            (16,),
        ),
        "mobile_flat": (Separable((56, 3, 2), ((56, 1), (56, 1), (56, 1)), size=40, sgd=True), (64,)),
        "mobile_many": (Separable((28, 3, 1), ((56, 2), (112, 2), (224, 2)), classes=200), (16,)),
        "mobile_small": (Separable((40, 3, 1), ((40, 1), (80, 2)), size=20, sgd=True), (4,)),
        "mobile_steep": (Separable((18, 5, 2), ((72, 2), (144, 2)), size=80), (64,)),
        "mobile_odd": (Separable((36, 3, 1), ((72, 2), (108, 1), (108, 2)), size=36), (4,)),
        "mobile_tall": (Separable((12, 3, 2), ((28, 2), (56, 2), (112, 2)), size=112), (4,)),
        "mobile_square": (Separable((88, 3, 2), ((88, 1), (176, 2)), size=28, sgd=True), (64,)),
        "mobile_long": (Separable((24, 3, 2), ((24, 1), (44, 2), (44, 1), (88, 2), (88, 1)), size=72), (16,)),
        "mobile_quick": (Separable((20, 5, 2), ((52, 1), (104, 2)), size=48, sgd=True), (16,)),
    },
    "MLP": {
        "mlp4": (Layers((784, 512, 512, 256)), (16, 64)),
        "mlp6": (Layers((300, 640, 640, 320, 320, 160), 20, normed=True, sgd=True), (4, 64)),
        "mlp2": (Layers((200, 300)), (64,)),
        "mlp3": (Layers((784, 1200, 1200)), (16,)),
        "mlp_funnel": (Layers((1500, 700, 350, 175)), (16,)),
        "mlp_thin": (Layers((60, 80, 80, 80, 80), 5), (64,)),
        "mlp_wide": (Layers((400, 2000), sgd=True), (4,)),
        "mlp_normed": (Layers((360, 720, 720), 40, normed=True), (16,)),
        "mlp_deep": (Layers((240, 240, 240, 240, 240, 240, 240), sgd=True), (4,)),
        "mlp_many": (Layers((600, 450, 450), 900, normed=True), (64,)),
        "mlp_square": (Layers((900, 900, 900)), (64,)),
        "mlp_neck": (Layers((640, 320, 40, 320, 640)), (16,)),
        "mlp_tall": (Layers((3000, 400, 200), sgd=True), (4,)),
        "mlp_even": (Layers((176, 352, 352, 352), 30, normed=True, sgd=True), (16,)),
    },
    "LSTM": {
        "lstm2": (Lstm(2000, 160, 2, 40), (4, 16)),
        "lstm1": (Lstm(800, 224, 1, 20), (16, 64)),
        "lstm_short": (Lstm(300, 112, 1, 10), (64,)),
        "lstm_long": (Lstm(700, 80, 1, 90), (4,)),
        "lstm_deep": (Lstm(600, 144, 3, 20), (16,)),
        "lstm_wide": (Lstm(1500, 300, 1, 28), (16,)),
        "lstm_thin": (Lstm(200, 48, 2, 36), (64,)),
        "lstm_words": (Lstm(3000, 100, 1, 30), (16,)),
        "lstm_letters": (Lstm(90, 176, 2, 60), (4,)),
        "lstm_even": (Lstm(1200, 208, 2, 14), (64,)),
        "lstm_sentence": (Lstm(1800, 72, 2, 26), (16,)),
        "lstm_square": (Lstm(400, 400, 1, 8), (4,)),
        "lstm_three": (Lstm(1000, 88, 3, 12), (64,)),
        "lstm_notes": (Lstm(130, 120, 1, 52), (4,)),
    },
    "transformer": {
        "transformer2": (Transformer(2000, 160, 2, 40, heads=4, dropout=0.1), (4, 16)),
        "transformer3": (Transformer(600, 112, 3, 64), (4, 64)),
        "transformer_short": (Transformer(300, 144, 1, 10), (64,)),
        "transformer_long": (Transformer(200, 80, 2, 128), (16,)),
        "transformer_deep": (Transformer(700, 72, 6, 20), (16,)),
        "transformer_wide": (Transformer(1500, 320, 1, 20, heads=8), (16,)),
        "transformer_words": (Transformer(3000, 120, 1, 28, heads=6), (4,)),
        "transformer_letters": (Transformer(90, 208, 2, 56, dropout=0.1), (4,)),
        "transformer_thin": (Transformer(250, 40, 3, 36, heads=2), (64,)),
        "transformer_drops": (Transformer(1200, 176, 2, 14, heads=8, dropout=0.1), (64,)),
        "transformer_square": (Transformer(500, 240, 2, 18, heads=6), (4,)),
        "transformer_notes": (Transformer(130, 56, 4, 44, heads=2, dropout=0.1), (16,)),
        "transformer_heads": (Transformer(1600, 160, 1, 22, heads=10), (64,)),
        "transformer_four": (Transformer(900, 96, 4, 30, heads=6, dropout=0.1), (4,)),
    },
}
NETWORKS: dict[str, JobFactory] = {
    name: make for family in FAMILIES.values() for name, (make, _) in family.items()
}
CASES = tuple(
    (name, batch) for family in FAMILIES.values() for name, (_, batches) in family.items() for batch in batches
)
