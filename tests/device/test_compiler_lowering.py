"""Every operator class becomes the right engine's work: kernel, shape, operations and bytes by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from device.compiler.lowering import RULES, lower
from device.compiler.lowering.vector_operations import COUNTS, DIVISION, ERF, EXPONENTIAL, SQUARE_ROOT
from device.compiler.program import Access, Engine, EngineNode

from .recorded_graphs import Recording, Tensor

BF16 = "BFloat16"


def nodes_of(recording: Recording) -> tuple[EngineNode, ...]:
    return lower(recording.keep()).program.nodes


def only(recording: Recording) -> EngineNode:
    (node,) = nodes_of(recording)
    return node


class TestMatrixProducts:
    def test_mm(self) -> None:
        recording = Recording()
        recording.matmul(recording.tensor(64, 128, dtype=BF16), recording.tensor(128, 32, dtype=BF16))
        node = only(recording)
        assert (node.engine, node.kernel, node.kind, node.dtype) == (Engine.MME, "gemm", "gemm", BF16)
        assert node.shape == (1, 64, 32, 128)
        assert node.operations == 2 * 64 * 128 * 32
        assert node.nbytes == 2 * (64 * 128 + 128 * 32 + 64 * 32)

    def test_a_transposed_factor_is_read_as_it_lies(self) -> None:
        recording = Recording()
        recording.matmul(recording.tensor(64, 128), recording.tensor(32, 128).t())
        node = only(recording)
        assert node.shape == (1, 64, 32, 128)
        assert [access.run for access in node.reads] == [0, 0]

    def test_addmm_reads_its_bias_once(self) -> None:
        recording = Recording()
        recording.run(
            "addmm",
            out=[(64, 32)],
            self=recording.tensor(32),
            mat1=recording.tensor(64, 128),
            mat2=recording.tensor(128, 32),
        )
        node = only(recording)
        assert node.shape == (1, 64, 32, 128)
        assert node.nbytes == 4 * (32 + 64 * 128 + 128 * 32 + 64 * 32)

    def test_bmm(self) -> None:
        recording = Recording()
        recording.run("bmm", out=[(16, 32, 32)], self=recording.tensor(16, 32, 8), mat2=recording.tensor(16, 8, 32))
        node = only(recording)
        assert (node.kernel, node.shape, node.operations) == ("batch_gemm", (16, 32, 32, 8), 2 * 16 * 32 * 32 * 8)

    def test_baddbmm_in_place_through_out(self) -> None:
        recording = Recording()
        total = recording.tensor(2, 3, 4)
        recording.run(
            "baddbmm.out", self=total, batch1=recording.tensor(2, 3, 5), batch2=recording.tensor(2, 5, 4), into=[total]
        )
        node = only(recording)
        assert node.shape == (2, 3, 4, 5)
        assert total.buffer in {access.buffer for access in node.reads}  # self is read although it is also out=

    @pytest.mark.parametrize(
        ("op", "operands", "result", "shape"),
        [
            ("mv", {"self": (16, 32), "vec": (32,)}, (16,), (1, 16, 1, 32)),
            ("dot", {"self": (32,), "tensor": (32,)}, (), (1, 1, 1, 32)),
            ("linear", {"input": (4, 8, 32), "weight": (16, 32)}, (4, 8, 16), (1, 32, 16, 32)),
            ("matmul", {"self": (4, 8, 32), "other": (32, 16)}, (4, 8, 16), (1, 32, 16, 32)),
            ("matmul", {"self": (2, 4, 8, 32), "other": (2, 4, 32, 16)}, (2, 4, 8, 16), (8, 8, 16, 32)),
            ("addbmm", {"self": (3, 4), "batch1": (2, 3, 5), "batch2": (2, 5, 4)}, (3, 4), (2, 3, 4, 5)),
        ],
    )
    def test_others(self, op: str, operands: dict[str, Any], result: tuple[int, ...], shape: tuple[int, ...]) -> None:
        recording = Recording()
        recording.run(op, out=[result], **{name: recording.tensor(*sizes) for name, sizes in operands.items()})
        node = only(recording)
        assert (node.kind, node.shape) == ("gemm", shape)
        assert node.operations == 2 * shape[0] * shape[1] * shape[2] * shape[3]

    def test_fp8_products_run_at_the_factors_rate(self) -> None:
        recording = Recording()
        fp8 = {name: recording.tensor(64, 64, dtype="Float8_e4m3fn") for name in ("self", "mat2")}
        recording.run("_scaled_mm", out=[(64, 64)], dtype=BF16, **fp8)
        assert only(recording).dtype == "Float8_e4m3fn"

    def test_activation_is_a_vector_kernel(self) -> None:
        recording = Recording()
        recording.run(
            "_addmm_activation",
            out=[(4, 8)],
            self=recording.tensor(8),
            mat1=recording.tensor(4, 2),
            mat2=recording.tensor(2, 8),
            attributes={"use_gelu": False},
        )
        product, activation = nodes_of(recording)
        assert (product.engine, activation.engine) == (Engine.MME, Engine.TPC)
        assert activation.kernel == "relu_fwd_f32"
        assert activation.reads == (Access(4 - 1, 128, 0, True),)


class TestConvolutions:
    """Four images of 16 channels 8 x 8, 32 kernels 3 x 3 with stride 2 to 4 x 4."""

    def weights(self, recording: Recording) -> tuple[Tensor, Tensor, Tensor]:
        return recording.tensor(4, 16, 8, 8), recording.tensor(32, 16, 3, 3), recording.tensor(4, 32, 4, 4)

    def test_forward(self) -> None:
        recording = Recording()
        source, weight, _ = self.weights(recording)
        recording.run("convolution", out=[(4, 32, 4, 4)], input=source, weight=weight, attributes={"groups": 1})
        node = only(recording)
        assert (node.engine, node.kernel, node.kind) == (Engine.MME, "spatial_convolution", "convolution")
        assert node.shape == (1, 4 * 16, 32, 16 * 9)
        assert node.operations == 2 * (4 * 32 * 16) * (16 * 9)

    def test_both_backwards_and_the_bias(self) -> None:
        recording = Recording()
        source, weight, gradient = self.weights(recording)
        recording.run(
            "convolution_backward",
            out=[(4, 16, 8, 8), (32, 16, 3, 3), (32,)],
            grad_output=gradient,
            input=source,
            weight=weight,
            attributes={"output_mask": (True, True, True), "groups": 1},
        )
        to_input, to_weight, to_bias = nodes_of(recording)
        work = 2 * (4 * 32 * 16) * (16 * 9)
        assert (to_input.kernel, to_input.kind) == ("dedx", "convolution_input")
        assert (to_input.shape, to_input.operations) == ((1, 64, 16, 32 * 9), work)
        assert (to_weight.kernel, to_weight.kind) == ("dedw", "convolution_weight")
        assert (to_weight.shape, to_weight.operations) == ((1, 32, 16 * 9, 64), work)
        assert (to_bias.engine, to_bias.kernel) == (Engine.TPC, "reduce_sum_fwd_f32")
        assert to_bias.operations == 4 * 32 * 16
        assert len({to_input.name, to_weight.name, to_bias.name}) == 3

    def test_only_the_gradients_asked_for(self) -> None:
        recording = Recording()
        source, weight, gradient = self.weights(recording)
        recording.run(
            "convolution_backward",
            out=[(32, 16, 3, 3)],
            grad_output=gradient,
            input=source,
            weight=weight,
            attributes={"output_mask": (False, True, False)},
        )
        assert [node.kernel for node in nodes_of(recording)] == ["dedw"]

    def test_transposed(self) -> None:
        recording = Recording()
        source, weight = recording.tensor(2, 16, 8, 8), recording.tensor(16, 3, 4, 4)
        options = {"transposed": True, "groups": 1, "output_mask": (True, True, False)}
        result = recording.run("convolution", out=[(2, 3, 16, 16)], input=source, weight=weight, attributes=options)
        recording.run(
            "convolution_backward",
            out=[(2, 16, 8, 8), (16, 3, 4, 4)],
            grad_output=result,
            input=source,
            weight=weight,
            attributes=options,
        )
        forward, to_input, to_weight = nodes_of(recording)
        positions = 2 * 64
        assert (forward.kernel, forward.shape) == ("dedx", (1, positions, 3, 16 * 16))
        assert (to_input.kernel, to_input.shape) == ("spatial_convolution", (1, positions, 16, 3 * 16))
        assert (to_weight.kernel, to_weight.shape) == ("dedw", (1, 16, 3 * 16, positions))
        assert forward.operations == to_input.operations == to_weight.operations == 2 * positions * 16 * 3 * 16

    def test_groups(self) -> None:
        recording = Recording()
        recording.run(
            "convolution",
            out=[(4, 32, 8, 8)],
            input=recording.tensor(4, 16, 8, 8),
            weight=recording.tensor(32, 4, 3, 3),
            attributes={"groups": 4},
        )
        node = only(recording)
        assert node.shape == (4, 4 * 64, 8, 4 * 9)
        assert node.operations == 2 * (4 * 32 * 64) * (4 * 9)

    def test_three_dimensions(self) -> None:
        recording = Recording()
        recording.run(
            "convolution", out=[(1, 2, 3, 3, 3)], input=recording.tensor(1, 1, 5, 5, 5),
            weight=recording.tensor(2, 1, 3, 3, 3),
        )  # fmt: skip
        assert (only(recording).kernel, only(recording).shape) == ("spatial_convolution3d", (1, 27, 2, 27))


class TestVectorKernels:
    @pytest.mark.parametrize(
        ("op", "count", "attributes"),
        [
            ("add.out", 1, {}),
            ("relu_", 1, {}),
            ("exp", EXPONENTIAL, {}),
            ("gelu", ERF + 3, {"approximate": "none"}),
            ("pow", 1, {"exponent": 2}),
            ("pow", SQUARE_ROOT, {"exponent": 0.5}),
            ("div", 1, {"other": "<tensor>"}),
            ("__and__", 1, {}),
        ],
    )
    def test_operations_per_element(self, op: str, count: float, attributes: dict[str, Any]) -> None:
        recording = Recording()
        recording.run(op, out=[(8, 16)], self=recording.tensor(8, 16), attributes=attributes)
        node = only(recording)
        assert (node.engine, node.kind, node.operations) == (Engine.TPC, "elementwise", 8 * 16 * count)
        assert node.nbytes == 2 * 4 * 8 * 16

    def test_division_of_tensors(self) -> None:
        recording = Recording()
        recording.elementwise("div", recording.tensor(8), recording.tensor(8))
        assert only(recording).operations == 8 * DIVISION

    def test_broadcast_operands_count_once(self) -> None:
        recording = Recording()
        recording.elementwise("add", recording.tensor(8, 16), recording.tensor(16))
        assert only(recording).nbytes == 4 * (8 * 16 + 16 + 8 * 16)

    def test_a_comparison_runs_in_its_operands_dtype(self) -> None:
        recording = Recording()
        recording.elementwise("gt", recording.tensor(8, dtype=BF16), dtype="Bool")
        assert only(recording).kernel == "greater_fwd_bf16"

    def test_reduction(self) -> None:
        recording = Recording()
        recording.run("sum", out=[(8, 1)], self=recording.tensor(8, 16), attributes={"dim": (1,), "keepdim": True})
        node = only(recording)
        assert (node.kernel, node.kind, node.operations) == ("reduce_sum_fwd_f32", "reduction", 128)
        assert (node.shape, node.nbytes) == ((8, 16), 4 * (128 + 8))
        assert [access.in_order for access in node.reads + node.writes] == [True, True]

    def test_a_reduction_of_the_outer_dimension_ends_at_the_end(self) -> None:
        recording = Recording()
        recording.run("sum", out=[(16,)], self=recording.tensor(8, 16), attributes={"dim": (0,)})
        assert [access.in_order for access in only(recording).reads + only(recording).writes] == [True, False]

    def test_layer_norm_moves_its_rows_once(self) -> None:
        recording = Recording()
        recording.run(
            "native_layer_norm",
            out=[(8, 64), (8, 1), (8, 1)],
            input=recording.tensor(8, 64),
            weight=recording.tensor(64),
            bias=recording.tensor(64),
        )
        node = only(recording)
        assert (node.kernel, node.kind, node.operations) == ("layer_norm_fwd_f32", "normalization", 8 * 512)
        assert node.nbytes == 4 * (512 + 64 + 64 + 512 + 8 + 8)

    def test_batch_norm_goes_over_its_input_twice_and_changes_running_statistics(self) -> None:
        recording = Recording()
        mean, variance = recording.tensor(16), recording.tensor(16)
        recording.run(
            "native_batch_norm",
            out=[(4, 16, 8, 8), (16,), (16,)],
            input=recording.tensor(4, 16, 8, 8),
            weight=recording.tensor(16),
            bias=recording.tensor(16),
            running_mean=mean,
            running_var=variance,
            attributes={"training": True},
        )
        node = only(recording)
        assert node.nbytes == 4 * (2 * 4096 + 4 * 16 + 4096 + 2 * 16 + 2 * 16)
        assert {mean.buffer, variance.buffer} <= {access.buffer for access in node.writes}

    def test_softmax(self) -> None:
        recording = Recording()
        recording.run("_softmax", out=[(8, 16)], self=recording.tensor(8, 16), attributes={"dim": -1})
        node = only(recording)
        assert (node.kernel, node.kind, node.operations) == ("softmax_fwd_f32", "softmax", 128 * (EXPONENTIAL + 4))

    def test_pooling(self) -> None:
        recording = Recording()
        recording.run(
            "max_pool2d_with_indices",
            out=[(1, 4, 4, 4), (1, 4, 4, 4)],
            self=recording.tensor(1, 4, 8, 8),
            attributes={"kernel_size": (2, 2)},
        )
        node = only(recording)
        assert (node.kernel, node.kind, node.operations) == ("maxpool_2d_fwd_f32", "pooling", 64 * 4)

    def test_nll_loss_takes_one_element_of_each_row(self) -> None:
        recording = Recording()
        recording.run(
            "nll_loss_forward",
            out=[(), ()],
            self=recording.tensor(32, 1000),
            target=recording.tensor(32, dtype="Long"),
        )
        node = only(recording)
        assert node.reads[0] == Access(0, 32 * 4, 4)
        assert node.kind == "loss"

    def test_sort(self) -> None:
        recording = Recording()
        recording.run("sort", out=[(4, 16), (4, 16)], self=recording.tensor(4, 16), attributes={"dim": 1})
        assert only(recording).operations == 64 * (4 * 5 / 2)  # log2(16) (log2(16) + 1) / 2

    def test_dropout(self) -> None:
        recording = Recording()
        recording.run("native_dropout", out=[(8, 16), (8, 16)], input=recording.tensor(8, 16), attributes={"p": 0.1})
        assert (only(recording).kernel, only(recording).kind) == ("dropout_fwd_f32", "random")

    def test_every_elementwise_operator_has_a_positive_count(self) -> None:
        assert min(COUNTS.values()) >= 1


class TestIndexing:
    def test_embedding_reads_the_rows_that_are_named(self) -> None:
        recording = Recording()
        table, index = recording.tensor(1000, 64, dtype=BF16), recording.tensor(32, dtype="Long")
        recording.run("index_select", out=[(32, 64)], dtype=BF16, self=table, index=index, attributes={"dim": 0})
        node = only(recording)
        assert (node.kernel, node.kind) == ("gather_fwd_bf16", "gather")
        assert node.reads == (Access(0, 32 * 128, 128), Access(1, 256, 0, True))

    def test_embedding_backward_clears_the_table_and_adds_rows(self) -> None:
        recording = Recording()
        recording.run(
            "embedding_dense_backward",
            out=[(1000, 64)],
            grad_output=recording.tensor(32, 64),
            indices=recording.tensor(32, dtype="Long"),
        )
        node = only(recording)
        assert node.kind == "scatter"
        assert node.writes == (Access(2, 1000 * 256), Access(2, 32 * 256, 256))
        assert Access(2, 32 * 256, 256) in node.reads

    def test_index_of_rows_and_of_elements(self) -> None:
        recording = Recording()
        table, index = recording.tensor(16, 32), recording.tensor(8, dtype="Long")
        recording.run("index", out=[(8, 32)], self=table, indices=index)
        recording.run("index", out=[(8,)], self=table, indices=[index, index])
        rows, elements = nodes_of(recording)
        assert (rows.reads[0].run, elements.reads[0].run) == (128, 4)

    def test_index_put_in_place_touches_the_rows_alone(self) -> None:
        recording = Recording()
        table, index = recording.tensor(1000, 32), recording.tensor(8, dtype="Long")
        recording.run(
            "_index_put_impl_", self=table, indices=index, values=recording.tensor(8, 32), changes=[table],
            attributes={"accumulate": True},
        )  # fmt: skip
        node = only(recording)
        assert node.writes == (Access(0, 8 * 128, 128),)
        assert sum(access.nbytes for access in node.reads if access.buffer == table.buffer) == 8 * 128

    def test_gather(self) -> None:
        recording = Recording()
        recording.run(
            "gather", out=[(2, 8)], self=recording.tensor(16, 32), index=recording.tensor(2, 8, dtype="Long"),
            attributes={"dim": 1},
        )  # fmt: skip
        assert only(recording).reads[0] == Access(0, 16 * 4, 4)


class TestMovement:
    def test_a_plain_copy_is_a_dma(self) -> None:
        recording = Recording()
        recording.copy(recording.tensor(8, 16), recording.empty(8, 16))
        node = only(recording)
        assert (node.engine, node.kernel, node.kind, node.operations) == (Engine.DMA, "memcpy", "copy", 0)
        assert node.nbytes == 2 * 512

    def test_a_copy_into_a_slice_moves_in_runs(self) -> None:
        recording = Recording()
        recording.copy(recording.tensor(8, 4), recording.tensor(8, 16).narrow(1, 4, 4))
        node = only(recording)
        assert node.engine is Engine.DMA
        assert node.writes == (Access(1, 128, 16, True),)
        assert [access.buffer for access in node.reads] == [0]  # the old value is not read

    def test_cast(self) -> None:
        recording = Recording()
        recording.cast(recording.tensor(8, 16), BF16)
        node = only(recording)
        assert (node.engine, node.kernel, node.kind) == (Engine.TPC, "cast_f32_to_bf16", "cast")
        assert node.nbytes == 128 * 6

    def test_another_order_is_a_transpose(self) -> None:
        recording = Recording()
        recording.copy(recording.tensor(8, 16, dtype=BF16).t(), recording.empty(16, 8, dtype=BF16))
        assert (only(recording).engine, only(recording).kernel) == (Engine.TPC, "transpose_bf16")

    def test_an_expanded_source_is_a_broadcast(self) -> None:
        recording = Recording()
        recording.copy(recording.tensor(16).expand(8, 16), recording.empty(8, 16))
        node = only(recording)
        assert (node.kernel, node.nbytes) == ("broadcast_fwd_f32", 64 + 512)

    def test_cat(self) -> None:
        recording = Recording()
        recording.run("cat", out=[(8, 32)], tensors=[recording.tensor(8, 16), recording.tensor(8, 16)],
                      attributes={"dim": 1})  # fmt: skip
        node = only(recording)
        assert (node.engine, node.kernel, node.nbytes) == (Engine.DMA, "concat", 2 * 8 * 32 * 4)
        assert node.writes[0].run == 64

    def test_fill_and_zero(self) -> None:
        recording = Recording()
        target = recording.tensor(8, 16)
        recording.run("zero_", self=target, changes=[target])
        recording.run("fill_.Scalar", self=target, changes=[target], attributes={"value": 1.0})
        zero, one = nodes_of(recording)
        assert (zero.engine, zero.kernel) == (Engine.DMA, "memset")
        assert (one.engine, one.kernel, one.reads) == (Engine.TPC, "constant_f32", ())


class TestListsOfTensors:
    def test_a_fused_update_is_a_kernel_for_each_parameter(self) -> None:
        recording = Recording()
        lists = {
            name: [recording.tensor(8, 8), recording.tensor(4)] for name in ("self", "grads", "exp_avgs", "exp_avg_sqs")
        }
        recording.run(
            "_fused_adamw_", **lists, state_steps=[recording.tensor(), recording.tensor()],
            changes=[tensor for tensors in lists.values() for tensor in tensors],
        )  # fmt: skip
        first, second = nodes_of(recording)
        assert (first.kernel, first.kind) == ("optimizer_adamw_bwd_f32", "optimizer")
        assert (first.shape, second.shape) == ((8, 8), (4,))
        assert first.nbytes == 256 * (4 + 3) + 4  # gradients are read only
        assert first.name != second.name

    def test_foreach_in_place_and_with_results(self) -> None:
        recording = Recording()
        parameters = [recording.tensor(8), recording.tensor(4)]
        gradients = [recording.tensor(8), recording.tensor(4)]
        recording.run("_foreach_add_.List", self=parameters, other=gradients, changes=parameters)
        recording.run("_foreach_mul.Scalar", self=gradients, out=[(8,), (4,)], attributes={"scalar": 2.0})
        recording.run("_foreach_norm.Scalar", self=gradients, out=[(), ()])
        nodes = nodes_of(recording)
        assert [node.kernel for node in nodes] == ["add_fwd_f32"] * 2 + ["mult_fwd_f32"] * 2 + [
            "reduce_norm_fwd_f32"
        ] * 2
        assert [node.nbytes for node in nodes] == [96, 48, 64, 32, 36, 20]


class TestAttention:
    def test_forward_is_two_products_and_a_softmax_that_stays_on_the_chip(self) -> None:
        recording = Recording()
        q, k, v = (recording.tensor(2, 4, 32, 16, dtype=BF16) for _ in range(3))
        recording.run("_scaled_dot_product_flash_attention", out=[(2, 4, 32, 16)], dtype=BF16, query=q, key=k, value=v)
        first, softmax, second = nodes_of(recording)
        assert first.shape == (8, 32, 32, 16)
        assert second.shape == (8, 32, 16, 32)
        assert (softmax.engine, softmax.kind, softmax.nbytes) == (Engine.TPC, "softmax", 0)
        assert first.nbytes + second.nbytes == 4 * 2 * 4 * 32 * 16 * 2

    def test_backward_is_five_products(self) -> None:
        recording = Recording()
        q, k, v, gradient = (recording.tensor(2, 4, 32, 16) for _ in range(4))
        recording.run(
            "_scaled_dot_product_flash_attention_backward",
            out=[(2, 4, 32, 16)] * 3,
            grad_out=gradient,
            query=q,
            key=k,
            value=v,
        )
        products = [node for node in nodes_of(recording) if node.kind == "gemm"]
        assert len(products) == 5
        assert {node.operations for node in products} == {2 * 8 * 32 * 32 * 16}


class TestAnythingElse:
    def test_an_unknown_operator_streams_its_operands(self) -> None:
        recording = Recording()
        recording.elementwise("my_own_operator", recording.tensor(8, 16))
        node = only(recording)
        assert (node.engine, node.kind, node.operations, node.nbytes) == (Engine.TPC, "other", 128, 1024)

    @pytest.mark.parametrize("base", sorted(RULES))
    def test_no_rule_breaks_on_operands_that_it_does_not_expect(self, base: str) -> None:
        for sizes in ((), (4,), (2, 3), (0, 3), (2, 3, 4, 5)):
            recording = Recording()
            recording.run(base, out=[sizes], self=recording.tensor(*sizes))
            recording.run(base, out=[sizes, sizes], odd=recording.tensor(*sizes))
            target = recording.tensor(*sizes)
            recording.run(f"{base}.out", into=[target])
            for node in nodes_of(recording):
                assert node.operations >= 0 and node.nbytes >= 0

    def test_every_tensor_operator_of_pytorch_has_a_kernel(self) -> None:
        """Each schema of aten with a made-up call: nothing crashes, and names stay unique."""
        schemas = [schema for schema in torch._C._jit_get_all_schemas() if schema.name.startswith("aten::")]
        recording = Recording()
        for schema in schemas:
            tensors = [argument.name for argument in schema.arguments if str(argument.type) == "Tensor"]
            names = [name for name in tensors if name not in ("out", "into", "dtype")]
            operands = {name: recording.tensor(2, 3, 4, 4) for name in names}
            results = [(2, 3, 4, 4)] * len(schema.returns)
            recording.run(f"{schema.name.partition('::')[2]}.{schema.overload_name}", out=results, **operands)
        nodes = nodes_of(recording)
        assert len({node.name for node in nodes}) == len(nodes) > 1000
