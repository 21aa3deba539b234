"""Ray without hpurun: its own accelerator manager finds the cards and gives each actor one."""

from __future__ import annotations

import pytest


@pytest.mark.slow
def test_actors_of_plain_ray_get_a_card_each(fresh_script) -> None:
    fresh_script(
        """
        import os, ray, torch
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        assert ray.cluster_resources()["HPU"] == torch.hpu.device_count() == 8
        assert not torch.hpu.is_initialized()

        @ray.remote(resources={"HPU": 1}, num_cpus=0.1)
        class Actor:
            def compute(self):
                import torch, habana_frameworks.torch
                total = (torch.arange(4.0).to("hpu") * 2).sum().item()
                return os.environ["HABANA_VISIBLE_MODULES"], torch.hpu.device_count(), total

        actors = [Actor.remote() for _ in range(2)]
        assert sorted(ray.get([actor.compute.remote() for actor in actors])) == [("0", 1, 12.0), ("1", 1, 12.0)]

        # Eight cards, two held: a ninth card's worth of work waits until one is free.
        waiting = Actor.options(resources={"HPU": 7}).remote()
        result = waiting.compute.remote()
        assert ray.wait([result], timeout=0.5)[0] == []
        ray.kill(actors.pop())
        assert ray.get(result)[1:] == (7, 12.0)
        try:
            Actor.options(resources={"HPU": 0.5}).remote()
        except ValueError as error:
            assert "HPU resource quantity must be whole numbers" in str(error)
        else:
            raise AssertionError("half a card was given")
        ray.shutdown()
        """,
        RAY_AUTH_MODE="disabled",
    )
