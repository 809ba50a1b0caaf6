"""The PyTorch side of benchmarks/training.py: idiomatic eager training of one model.

Run by a Python that has torch: python torch_training.py THREADS CASE SECONDS
It prints one line of JSON: steps a second, and the loss reached.
"""

import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


def convolutional():
    def down(i, o):
        return [nn.Conv2d(i, o, 4, 2, 1), nn.ReLU()]

    def up(i, o):
        return [nn.ReLU(), nn.ConvTranspose2d(i, o, 4, 2, 1)]

    encoder = nn.Sequential(
        *(layer for pair in ((1, 32), (32, 32), (32, 64), (64, 64)) for layer in down(*pair)),
        *(nn.Flatten(), nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 20)),
    )
    decoder = nn.Sequential(
        *(nn.Linear(10, 256), nn.ReLU(), nn.Linear(256, 1024), nn.Unflatten(1, (64, 4, 4))),
        *(layer for pair in ((64, 64), (64, 32), (32, 32), (32, 1)) for layer in up(*pair)),
    )
    return encoder, decoder, (1, 64, 64), torch.optim.Adam, 1e-3


def mlp():
    encoder = nn.Sequential(
        *(nn.Linear(4096, 1200), nn.ReLU(), nn.Linear(1200, 1200), nn.ReLU(), nn.Linear(1200, 10))
    )
    decoder = nn.Sequential(
        *(nn.Linear(5, 1200), nn.Tanh(), nn.Linear(1200, 1200), nn.Tanh()),
        *(nn.Linear(1200, 1200), nn.Tanh(), nn.Linear(1200, 4096)),
    )
    return encoder, decoder, (4096,), torch.optim.Adagrad, 1e-3


def linear():
    return nn.Linear(3, 4), nn.Linear(2, 3), (3,), torch.optim.Adam, 1e-3


def main(threads, case, seconds):
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    encoder, decoder, shape, optimizer, rate = globals()[case]()
    optimizer = optimizer([*encoder.parameters(), *decoder.parameters()], lr=rate)
    data = torch.rand(4096, *shape)
    if case != "linear":
        data = (data > 0.5).float()

    def step():
        x = data[torch.randint(0, len(data), (64,))]
        mean, log_variance = encoder(x).chunk(2, dim=1)
        z = mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)
        y = decoder(z)
        if case == "linear":
            reconstruction = ((y - x) ** 2).sum() / len(x)
        else:
            reconstruction = F.binary_cross_entropy_with_logits(y, x, reduction="sum") / len(x)
        kl = 0.5 * (mean**2 + log_variance.exp() - log_variance - 1).sum() / len(x)
        loss = reconstruction + kl
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(5):
        step()
    rates, began = [], time.perf_counter()
    while time.perf_counter() - began < seconds or len(rates) < 3:
        start, count = time.perf_counter(), 0
        while time.perf_counter() - start < seconds / 5 or count < 3:
            loss = step()
            count += 1
        rates.append(count / (time.perf_counter() - start))
    print(json.dumps({"rate": sorted(rates)[len(rates) // 2], "loss": loss.item()}))


main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
