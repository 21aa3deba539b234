"""Streams and events in modelled time, and copies that overlap with compute."""

from __future__ import annotations

import pytest
import torch

import habana_frameworks.torch.core as htcore
from device.backend import runtime


def products(count: int, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    for _ in range(count):
        x = x @ y
        htcore.mark_step()
    return x


class TestEvents:
    def test_elapsed_time_is_the_modelled_time_between_them_in_milliseconds(self) -> None:
        x = torch.zeros(512, 512, device="hpu")
        products(1, x, x)
        torch.hpu.synchronize()
        start, end = (torch.hpu.Event(enable_timing=True) for _ in range(2))
        line = runtime.card().timeline
        begin = line.main
        start.record()
        products(3, x, x)
        end.record()
        end.synchronize()
        assert start.elapsed_time(end) == pytest.approx((line.main - begin) * 1e3)
        flops = 3 * 2 * 512**3
        assert flops / (start.elapsed_time(end) / 1e3) < 432e12

    def test_an_event_is_reached_when_the_host_has_waited(self) -> None:
        x = torch.zeros(1024, 1024, device="hpu")
        products(20, x, x)
        event = torch.hpu.Event()
        event.record()
        assert not event.query()
        event.synchronize()
        assert event.query()

    def test_asking_again_and_again_ends(self) -> None:
        x = torch.zeros(256, 256, device="hpu")
        products(2, x, x)
        event = torch.hpu.current_stream().record_event()
        while not event.query():
            pass
        while not torch.hpu.current_stream().query():
            pass

    def test_handles_do_not_run_out(self) -> None:
        events = [torch.hpu.Event(enable_timing=True) for _ in range(5000)]
        for event in events:
            event.record()
        assert events[0].elapsed_time(events[-1]) >= 0

    def test_events_that_are_gone_leave_nothing(self) -> None:
        line = runtime.card().timeline
        kept = torch.hpu.Event(enable_timing=True)
        held = len(line._marks)
        for _ in range(100):
            torch.hpu.Event().record()
            kept.record()
        assert len(line._marks) == held + 1
        assert kept.elapsed_time(kept) == 0

    def test_errors(self) -> None:
        timed, recorded = torch.hpu.Event(enable_timing=True), torch.hpu.Event()
        recorded.record()
        with pytest.raises(RuntimeError, match="the start event was not recorded"):
            timed.elapsed_time(recorded)
        timed.record()
        with pytest.raises(RuntimeError, match="the end event has no time"):
            timed.elapsed_time(recorded)
        unrecorded = torch.hpu.Event()
        unrecorded.wait()
        unrecorded.synchronize()
        assert unrecorded.query()


class TestStreams:
    def test_work_goes_to_the_chosen_stream(self) -> None:
        line = runtime.card().timeline
        side = torch.hpu.Stream()
        x = torch.zeros(64, 64, device="hpu")
        torch.hpu.synchronize()
        before = dict(line.streams)
        with torch.hpu.stream(side):
            y = x @ x
        assert torch.hpu.current_stream() == torch.hpu.default_stream()
        assert line.streams[side.id()] > line.main
        assert line.streams[0] == before[0]
        torch.hpu.current_stream().wait_stream(side)
        assert line.streams[0] == line.streams[side.id()]
        side.synchronize()
        assert side.query()
        assert y.sum().item() == 0

    def test_a_pinned_copy_overlaps_with_compute_and_a_pageable_one_holds_the_host(self) -> None:
        line = runtime.card().timeline
        x = torch.zeros(2048, 2048, device="hpu")
        products(1, x, x)
        torch.hpu.synchronize()
        host = torch.zeros(1 << 20)
        seconds = line.spec.pcie.latency_s + host.nbytes / line.spec.pcie.bandwidth_bytes_per_s
        before = line.main
        on_card = host.pin_memory().to("hpu", non_blocking=True)
        assert line.main == before
        assert line.free["copy in"] == pytest.approx(before + seconds)
        host.to("hpu")
        staging = host.nbytes / line.spec.host.staging_bytes_per_s
        assert line.main == pytest.approx(max(before + seconds, before + staging) + seconds)
        assert (on_card + 1).sum().item() == host.numel()

    def test_a_graph_waits_for_the_copy_that_it_reads(self) -> None:
        line = runtime.card().timeline
        weights = torch.zeros(8, 8, device="hpu")
        for _ in range(2):  # compiled before the measurement
            warm = weights + 1
            htcore.mark_step()
        torch.hpu.synchronize()
        host = torch.zeros(1 << 22).pin_memory()
        batch = host.to("hpu", non_blocking=True)
        arrives = line.free["copy in"]
        other = weights + 1
        htcore.mark_step()
        assert line.streams[0] < arrives
        batch = batch + 1
        htcore.mark_step()
        assert line.streams[0] > arrives
        assert (other.sum() + batch.sum() + warm.sum()).item() == 128 + host.numel()


def test_a_card_that_is_closed_says_so(script) -> None:  # type: ignore[no-untyped-def]
    done = script(
        """
        import torch, habana_frameworks.torch.core
        from device.card import current_card
        x = torch.ones(2, device="hpu")
        stream = torch.hpu.Stream()
        (x + 1).sum().item()
        current_card().close()
        for use in (stream.synchronize, lambda: (x + 1).cpu(), lambda: torch.hpu.Event().record(stream)):
            try:
                use()
            except RuntimeError as error:
                print(error)
        """
    )
    assert done.stdout.count("the card is closed") == 3


def test_the_accelerators_streams_are_the_cards() -> None:
    stream = torch.accelerator.current_stream()
    assert stream == torch.hpu.current_stream()
    stream.wait_event(torch.hpu.Event())
    stream.wait_event(torch.Event("hpu"))
    torch.accelerator.set_stream(torch.hpu.default_stream())


class TestPyTorchsOwn:
    """`torch.Event` and `torch.Stream`, which programs for any accelerator use."""

    def test_events_have_modelled_time(self) -> None:
        x = torch.zeros(512, 512, device="hpu")
        products(1, x, x)
        torch.hpu.synchronize()
        own, generic = ([kind(*args, enable_timing=True) for _ in range(2)] for kind, args in KINDS)
        for event in (own[0], generic[0]):
            event.record()
        products(3, x, x)
        for event in (own[1], generic[1]):
            event.record()
        generic[1].synchronize()
        assert generic[1].query()
        assert generic[0].elapsed_time(generic[1]) == pytest.approx(own[0].elapsed_time(own[1]), rel=0.05)

    def test_an_event_without_time_or_record_is_refused(self) -> None:
        event = torch.Event("hpu", enable_timing=True)
        event.record()
        for other in (torch.Event("hpu"), torch.Event("hpu", enable_timing=True)):
            with pytest.raises((RuntimeError, ValueError), match="event"):
                event.elapsed_time(other)

    def test_a_stream_that_is_entered_is_the_cards(self) -> None:
        stream = torch.Stream("hpu")
        x = torch.zeros(1024, 1024, device="hpu")
        torch.hpu.synchronize()
        with stream:
            assert torch.hpu.current_stream().stream_id == stream.stream_id
            products(20, x, x)
            event = torch.Event("hpu")
            event.record()
        assert torch.hpu.current_stream() == torch.hpu.default_stream()
        line = runtime.card().timeline
        end = line.streams[stream.stream_id]
        assert line.streams.get(0, 0.0) < end
        torch.hpu.current_stream().wait_event(event)
        assert line.streams[0] >= end
        stream.synchronize()
        assert stream.query() and line.main >= end


KINDS = ((torch.hpu.Event, ()), (torch.Event, ("hpu",)))
