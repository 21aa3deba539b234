// Making tensors and views of them. A view is another window on the same storage: nothing is recorded.
#include "views.h"

#include "recorder.h"

#include <ATen/EmptyTensor.h>
#include <ATen/InferSize.h>
#include <ATen/TensorUtils.h>
#include <ATen/ops/view_native.h>
#include <c10/core/WrapDimMinimal.h>
#include <torch/library.h>

#include <unordered_set>

namespace hpu {
namespace {

std::unordered_set<int>& refused_dtypes() {
  static auto* refused = new std::unordered_set<int>();
  return *refused;
}

}  // namespace

void check_dtype(c10::ScalarType dtype) {
  TORCH_CHECK(!c10::isComplexType(dtype), "Complex datatype is not supported on HPU device");
  if (dtype == c10::ScalarType::Half || c10::isFloat8Type(dtype)) {  // what not every generation has
    Gil gil;
    require_card();
  }
  TORCH_CHECK(!refused_dtypes().count(static_cast<int>(dtype)), c10::toString(dtype), " is not supported on Gaudi");
}

namespace {

c10::ScalarType accepted_dtype(std::optional<c10::ScalarType> dtype) {
  const auto chosen = dtype.has_value() ? *dtype : c10::typeMetaToScalarType(c10::get_default_dtype());
  check_dtype(chosen);
  return chosen;
}

constexpr auto kKeys = c10::DispatchKeySet(c10::DispatchKey::PrivateUse1);

at::Tensor empty(c10::IntArrayRef size, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout> layout,
                 std::optional<c10::Device> /*device*/, std::optional<bool> pin_memory,
                 std::optional<c10::MemoryFormat> memory_format) {
  TORCH_CHECK(!layout.has_value() || *layout == c10::Layout::Strided, "hpu tensors are dense; got layout ", *layout);
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
  return at::detail::empty_generic(size, allocator(), kKeys, accepted_dtype(dtype), memory_format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<c10::ScalarType> dtype,
                         std::optional<c10::Layout> /*layout*/, std::optional<c10::Device> /*device*/,
                         std::optional<bool> pin_memory) {
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
  return at::detail::empty_strided_generic(size, stride, allocator(), kKeys, accepted_dtype(dtype));
}

// Elsewhere a tensor without memory that reads as zero; here plain zeros.
at::Tensor efficient_zeros(c10::IntArrayRef size, std::optional<c10::ScalarType> dtype,
                           std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                           std::optional<bool> pin_memory) {
  auto zeros = empty(size, dtype, layout, device, pin_memory, std::nullopt);
  zeros.zero_();
  return zeros;
}

at::Tensor alias(const at::Tensor& self, c10::IntArrayRef size, c10::IntArrayRef stride, int64_t offset) {
  auto impl = c10::make_intrusive<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(self.storage()), self.key_set(),
                                                   self.dtype());
  impl->set_storage_offset(offset);
  impl->set_sizes_and_strides(size, stride);
  return at::Tensor(std::move(impl));
}

size_t bytes_needed(c10::IntArrayRef size, c10::IntArrayRef stride, int64_t offset, size_t itemsize) {
  size_t last = static_cast<size_t>(offset);
  for (size_t i = 0; i < size.size(); ++i) {
    if (size[i] == 0) return 0;
    last += static_cast<size_t>((size[i] - 1) * stride[i]);
  }
  return (last + 1) * itemsize;
}

at::Tensor as_strided(const at::Tensor& self, c10::IntArrayRef size, c10::IntArrayRef stride,
                      std::optional<int64_t> storage_offset) {
  TORCH_CHECK(size.size() == stride.size(), "mismatch in length of strides and shape");
  const int64_t offset = storage_offset.value_or(self.storage_offset());
  TORCH_CHECK(offset >= 0, "as_strided: negative storage offset ", offset);
  for (auto step : stride)
    TORCH_CHECK(step >= 0, "as_strided: Negative strides are not supported at the moment, got strides: ", stride);
  const size_t needed = bytes_needed(size, stride, offset, self.itemsize());
  TORCH_CHECK(needed <= self.storage().nbytes(), "setStorage: sizes ", size, ", strides ", stride, ", storage offset ",
              offset, ", and itemsize ", self.itemsize(), " requiring a storage size of ", needed,
              " are out of bounds for storage of size ", self.storage().nbytes());
  return alias(self, size, stride, offset);
}

at::Tensor view(const at::Tensor& self, c10::IntArrayRef size) {
  const auto inferred = at::infer_size_dv(size, self.numel());
  const auto stride = at::detail::computeStride(self.sizes(), self.strides(), inferred);
  TORCH_CHECK(stride.has_value(), "view size is not compatible with input tensor's size and stride (at least one "
              "dimension spans across two contiguous subspaces). Use .reshape(...) instead.");
  return alias(self, inferred, *stride, self.storage_offset());
}

at::Tensor view_dtype(const at::Tensor& self, c10::ScalarType dtype) {
  check_dtype(dtype);
  return at::native::view_dtype(self, dtype);
}

at::Tensor view_as_complex(const at::Tensor& /*self*/) {
  check_dtype(c10::ScalarType::ComplexFloat);
  return {};
}

at::Tensor reshape_alias(const at::Tensor& self, c10::IntArrayRef size, c10::IntArrayRef stride) {
  return alias(self, size, stride, self.storage_offset());
}

at::Tensor unfold(const at::Tensor& self, int64_t dimension, int64_t size, int64_t step) {
  const int64_t rank = self.dim();
  const int64_t dim = c10::maybe_wrap_dim(dimension, rank, /*wrap_scalar=*/true);
  const int64_t length = rank == 0 ? 1 : self.size(dim);
  TORCH_CHECK(size <= length, "maximum size for tensor at dimension ", dim, " is ", length, " but size is ", size);
  TORCH_CHECK(size >= 0, "size is ", size, " but must be >= 0");
  TORCH_CHECK(step > 0, "step is ", step, " but must be > 0");
  std::vector<int64_t> sizes(self.sizes().begin(), self.sizes().end());
  std::vector<int64_t> strides(self.strides().begin(), self.strides().end());
  const int64_t inner = rank == 0 ? 1 : strides[dim];
  if (rank > 0) {
    sizes[dim] = (length - size) / step + 1;
    strides[dim] = step * inner;
  }
  sizes.push_back(size);
  strides.push_back(inner);
  return alias(self, sizes, strides, self.storage_offset());
}

void grow_storage(c10::StorageImpl& storage, size_t needed) {
  if (needed <= storage.nbytes()) return;
  TORCH_CHECK(storage.resizable(), "Trying to resize storage that is not resizable");
  if (pending(storage)) call_flush("resize_");
  settle();
  resize_block(storage, needed);
}

const at::Tensor& resize_(const at::Tensor& self, c10::IntArrayRef size, std::optional<c10::MemoryFormat> format) {
  auto* impl = self.unsafeGetTensorImpl();
  if (impl->sizes() != size) impl->set_sizes_contiguous(size);
  if (format.has_value()) {
    TORCH_CHECK(*format != c10::MemoryFormat::Preserve, "Unsupported memory format ", *format);
    impl->empty_tensor_restride(*format);
  }
  Gil gil;
  grow_storage(*self.storage().unsafeGetStorageImpl(),
               bytes_needed(self.sizes(), self.strides(), self.storage_offset(), self.itemsize()));
  return self;
}

at::Tensor& set_storage_offset(at::Tensor& self, c10::Storage source, int64_t offset, c10::IntArrayRef size,
                               c10::IntArrayRef stride) {
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(source));
  impl->set_storage_offset(offset);
  if (stride.empty() && !size.empty()) impl->set_sizes_contiguous(size);
  else impl->set_sizes_and_strides(size, stride);
  Gil gil;
  grow_storage(*self.storage().unsafeGetStorageImpl(),
               bytes_needed(self.sizes(), self.strides(), offset, self.itemsize()));
  return self;
}

at::Tensor& set_storage(at::Tensor& self, c10::Storage source) {
  const int64_t elements = static_cast<int64_t>(source.nbytes() / self.itemsize());
  return set_storage_offset(self, std::move(source), 0, {elements}, {});
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  if (self.is_same(source)) return self;
  return set_storage_offset(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor& set_empty(at::Tensor& self) {
  c10::Storage storage(c10::Storage::use_byte_size_t(), 0, allocator(), /*resizable=*/true);
  return set_storage_offset(self, std::move(storage), 0, {0}, {});
}

}  // namespace

void refuse_dtype(c10::ScalarType dtype) { refused_dtypes().insert(static_cast<int>(dtype)); }

void resize_storage(const c10::Storage& storage, size_t nbytes) {
  Gil gil;
  auto* impl = storage.unsafeGetStorageImpl();
  if (pending(*impl)) call_flush("storage.resize_");
  settle();
  resize_block(*impl, nbytes);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("_efficientzerotensor", &efficient_zeros);
  library.impl("as_strided", &as_strided);
  library.impl("view", &view);
  library.impl("view.dtype", &view_dtype);
  library.impl("_reshape_alias", &reshape_alias);
  library.impl("unfold", &unfold);
  library.impl("view_as_complex", &view_as_complex);
  library.impl("resize_", &resize_);
  library.impl("set_.source_Storage", &set_storage);
  library.impl("set_.source_Storage_storage_offset", &set_storage_offset);
  library.impl("set_.source_Tensor", &set_tensor);
  library.impl("set_", &set_empty);
}

}  // namespace hpu
