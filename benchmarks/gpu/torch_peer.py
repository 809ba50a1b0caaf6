"""The PyTorch side of benchmarks/gpu/measure.py: idiomatic training of one model on one GPU.

    python torch_peer.py CASE MODE SECONDS

CASE is convolutional or mlp. MODE is eager, loader (batches from a DataLoader with 8 workers),
compiled (torch.compile with CUDA graphs), graph (torch.compile, then the whole step, optimizer
included, captured as one CUDA graph) or graph-bfloat16 (the same under autocast). Products are in
tf32. It prints one line of JSON: the median rate in steps a second, and the loss reached.
"""

import json
import sys
import time
from contextlib import nullcontext

import torch
from torch import nn
from torch.nn import functional as F

BATCH, ROWS = 64, 65536


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
    return encoder, decoder, (1, 64, 64), torch.optim.Adam, {"fused": True}


def mlp():
    encoder = nn.Sequential(
        *(nn.Linear(4096, 1200), nn.ReLU(), nn.Linear(1200, 1200), nn.ReLU(), nn.Linear(1200, 10))
    )
    decoder = nn.Sequential(
        *(nn.Linear(5, 1200), nn.Tanh(), nn.Linear(1200, 1200), nn.Tanh()),
        *(nn.Linear(1200, 1200), nn.Tanh(), nn.Linear(1200, 4096)),
    )
    return encoder, decoder, (4096,), torch.optim.Adagrad, {"foreach": True}


class Model(nn.Module):
    def __init__(self, encoder, decoder):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(self, x):
        mean, log_variance = self.encoder(x).float().chunk(2, dim=1)
        z = mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)
        y = self.decoder(z).float()
        reconstruction = F.binary_cross_entropy_with_logits(y, x, reduction="sum") / len(x)
        return reconstruction + 0.5 * (mean**2 + log_variance.exp() - log_variance - 1).sum() / len(
            x
        )


def loader(shape):
    data = (torch.rand(ROWS, *shape) > 0.5).to(torch.uint8)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(data),
        batch_size=BATCH,
        shuffle=True,
        drop_last=True,
        num_workers=8,
        pin_memory=True,
        persistent_workers=True,
    )
    while True:
        for (batch,) in loader:
            yield batch.cuda(non_blocking=True).float()


def resident(shape):
    data = (torch.rand(ROWS, *shape, device="cuda") > 0.5).to(torch.uint8)
    while True:
        yield data[torch.randint(0, ROWS, (BATCH,), device="cuda")].float()


def captured(step, batches):
    """The whole step as one CUDA graph, replayed on a fixed batch buffer."""
    static = next(batches).clone()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            step(static)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step(static)

    def replay(x):
        static.copy_(x)
        graph.replay()
        return loss

    return replay


def main(case, mode, seconds):
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.benchmark = True
    encoder, decoder, shape, optimizer, options = globals()[case]()
    model = Model(encoder, decoder).cuda()
    if mode.startswith("graph") and case == "convolutional":
        options = options | {"capturable": True}
    optimizer = optimizer(model.parameters(), lr=1e-3, **options)
    batches = loader(shape) if mode == "loader" else resident(shape)
    loss_of = model
    if mode == "compiled":
        loss_of = torch.compile(model, mode="reduce-overhead")
    elif mode.startswith("graph"):
        loss_of = torch.compile(model)
    narrow = mode == "graph-bfloat16"

    def step(x):
        optimizer.zero_grad(set_to_none=not mode.startswith("graph"))
        with torch.autocast("cuda", torch.bfloat16) if narrow else nullcontext():
            loss = loss_of(x)
        loss.backward()
        optimizer.step()
        return loss

    take = captured(step, batches) if mode.startswith("graph") else step
    for _ in range(20):
        take(next(batches))
    torch.cuda.synchronize()
    rates, began = [], time.perf_counter()
    while time.perf_counter() - began < seconds or len(rates) < 3:
        start, count = time.perf_counter(), 0
        while time.perf_counter() - start < seconds / 7 or count < 20:
            loss = take(next(batches))
            count += 1
        torch.cuda.synchronize()
        rates.append(count / (time.perf_counter() - start))
    print(json.dumps({"rate": sorted(rates)[len(rates) // 2], "loss": loss.item()}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
