"""The linear recurrence: in order = in parallel = a loop, at a cost that is linear in T."""

from __future__ import annotations

import pytest
import torch
from linear_time_oracle import elements_written

from tfcore.scan import scan


def draw(T, B=2, d=3, N=4, dtype=torch.float64, grad=False):
    generator = torch.Generator().manual_seed(T)
    decay = torch.rand(B, T, d, N, generator=generator, dtype=dtype)
    drive, start = (
        torch.randn(*shape, generator=generator, dtype=dtype) for shape in ((B, T, d, N), (B, d, N))
    )
    return [x.requires_grad_(grad) for x in (decay, drive, start)]


@pytest.mark.parametrize("with_start", [True, False])
@pytest.mark.parametrize("parallel", [True, False, None])
@pytest.mark.parametrize("T", [1, 2, 3, 4, 5, 7, 8, 9, 31, 64])
def test_every_step_follows_from_the_one_before(T, parallel, with_start):
    decay, drive, start = draw(T)
    states = scan(decay, drive, start if with_start else None, parallel)
    before = torch.cat([start.unsqueeze(1) * with_start, states[:, :-1]], dim=1)
    torch.testing.assert_close(states, decay * before + drive, rtol=0, atol=1e-12)


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("T", [1, 2, 5, 6])
def test_gradients(T, parallel):
    inputs = draw(T, B=1, d=2, N=1, grad=True)
    assert torch.autograd.gradcheck(lambda *x: scan(*x, parallel), inputs)


@pytest.mark.parametrize("parallel", [True, False])
def test_decay_broadcasts(parallel):
    decay, drive, start = draw(6)
    shared = decay[..., :1]
    want = scan(shared.expand_as(drive), drive, start, parallel=False)
    torch.testing.assert_close(scan(shared, drive, start, parallel), want)
    constant = decay[:1, :1]
    want = scan(constant.expand_as(drive), drive, start, parallel=False)
    torch.testing.assert_close(scan(constant, drive, start, parallel), want)


@pytest.mark.parametrize("parallel", [True, False])
def test_steps_without_a_decay_and_no_steps_are_refused(parallel):
    decay, drive, _ = draw(6)
    for a, b in ((decay[:, 1:], drive), (decay[:, :0], drive[:, :0]), (decay[..., 0], drive)):
        with pytest.raises(ValueError, match="expected one decay for each"):
            scan(a, b, parallel=parallel)


@pytest.mark.parametrize("parallel", [True, False])
def test_cost_grows_linearly_forward_and_backward(parallel):
    def cost(T):
        return elements_written(lambda: scan(*draw(T, grad=True), parallel))

    assert cost(512) <= 2.05 * cost(256)


@pytest.mark.parametrize("parallel", [True, False])
def test_no_input_changes_and_types_stay(parallel):
    inputs = draw(5, dtype=torch.float32)
    before = [x.clone() for x in inputs]
    assert scan(*inputs, parallel).dtype == torch.float32
    assert all(torch.equal(x, y) for x, y in zip(inputs, before, strict=True))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_goes_in_parallel_to_the_same_states():
    inputs = draw(100)
    torch.testing.assert_close(scan(*(x.cuda() for x in inputs)).cpu(), scan(*inputs))
