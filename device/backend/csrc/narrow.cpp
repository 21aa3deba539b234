// Types that the card holds in 32 bits, though a tensor keeps the name of the wider one: float64 always, int64 unless
// the card's software is told to support it. Storages have the wide layout here; their values are those of the narrow type.
#include "narrow.h"

#include "recorder.h"

#include <cmath>
#include <limits>
#include <unordered_set>

namespace hpu {
namespace {

bool narrow_integers = false;
bool check_range = false;
bool wrapping_is_refused = false;

void require_fit(const int64_t* values, int64_t count, const std::string& writer) {
  for (int64_t i = 0; i < count; ++i)
    TORCH_CHECK(values[i] == static_cast<int32_t>(values[i]), writer, ": ", values[i], " in its int64 result does not fit "
                "the 32 bits that the card has for it, which would hold ", static_cast<int32_t>(values[i]),
                "; compute it in float32, or set PT_ENABLE_INT64_SUPPORT=1 (HPUCLUSTER_STRICT=1)");
}

template <typename Narrow, typename Wide>
void convert(Wide* values, int64_t count, bool limit) {
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_integral_v<Wide>) {
      if (limit) values[i] = std::min<Wide>(std::max<Wide>(values[i], std::numeric_limits<Narrow>::lowest()),
                                            std::numeric_limits<Narrow>::max());
      else values[i] = static_cast<Narrow>(static_cast<uint64_t>(values[i]));
    } else {
      values[i] = static_cast<Narrow>(values[i]);
    }
  }
}

template <typename Narrow, typename Wide>
void require_range(const at::Tensor& source, c10::ScalarType narrow) {
  if (source.numel() == 0) return;
  const auto dense = source.contiguous();
  const auto* values = static_cast<const Wide*>(dense.const_data_ptr());
  constexpr Wide low = std::numeric_limits<Narrow>::lowest(), high = std::numeric_limits<Narrow>::max();
  Wide smallest = std::numeric_limits<Wide>::max(), largest = std::numeric_limits<Wide>::lowest();
  for (int64_t i = 0; i < dense.numel(); ++i) {
    Wide value = values[i];
    if constexpr (!std::is_integral_v<Wide>) {  // infinities and NaN have their place in the narrow type
      if (std::isnan(value)) value = 0;
      else if (std::isinf(value)) value = value > 0 ? high : low;
    }
    smallest = std::min(smallest, value);
    largest = std::max(largest, value);
  }
  TORCH_CHECK(smallest >= low && largest <= high, "Error when trying to cast ", source.scalar_type(), " to ", narrow,
              ", Input values range [", smallest, ", ", largest, "] exceeds ", narrow, " range [", low, ", ", high, "]");
}

}  // namespace

void set_narrowing(bool integers, bool check, bool refuse_wrapping) {
  narrow_integers = integers;
  check_range = check;
  wrapping_is_refused = refuse_wrapping;
}

bool is_narrow(c10::ScalarType dtype) {
  return dtype == at::kDouble || (narrow_integers && dtype == at::kLong);
}

// Constants and values of other types: so the smallest int64 stays the smallest number.
bool limits_range(const OpInfo& info) {
  static const std::unordered_set<std::string> names = {
      "_to_copy",   "clamp",  "clamp_max", "clamp_min",     "constant_pad_nd", "copy_", "fill",   "full", "full_like",
      "index_fill", "index_put", "_index_put_impl", "masked_fill", "scalar_tensor", "scatter", "where",
  };
  const size_t begin = std::string("aten::").size();
  auto base = info.name.substr(begin, info.name.find('.') - begin);
  if (names.count(base)) return true;
  if (!base.empty() && base.back() == '_') base.pop_back();
  return names.count(base) > 0;
}

bool needs_narrowing(const OpInfo& info, const at::Tensor& written, const torch::jit::Stack& arguments) {
  if (!is_narrow(written.scalar_type())) return false;
  if (info.name != "aten::copy_") return true;
  return !arguments[1].isTensor() || arguments[1].toTensor().scalar_type() != written.scalar_type();
}

void narrow(const at::Tensor& host, bool limit, const std::string& writer) {
  if (!is_narrow(host.scalar_type()) || host.numel() == 0) return;
  const bool dense = host.is_non_overlapping_and_dense();
  const auto flat = dense ? host : host.contiguous();
  if (wrapping_is_refused && !limit && host.scalar_type() == at::kLong)
    require_fit(static_cast<const int64_t*>(flat.const_data_ptr()), flat.numel(), writer);
  if (host.scalar_type() == at::kDouble) convert<float>(static_cast<double*>(flat.mutable_data_ptr()), flat.numel(), limit);
  else convert<int32_t>(static_cast<int64_t*>(flat.mutable_data_ptr()), flat.numel(), limit);
  if (!dense) host.copy_(flat);
}

at::Tensor narrowed(const at::Tensor& source) {
  if (!is_narrow(source.scalar_type())) return source;
  const bool real = source.scalar_type() == at::kDouble;
  if (check_range) {
    if (real) require_range<float, double>(source, at::kFloat);
    else require_range<int32_t, int64_t>(source, at::kInt);
  }
  return source.to(real ? at::kFloat : at::kInt);
}

}  // namespace hpu
