// Types that the card holds in 32 bits: float64, and int64 where it is not supported.
#pragma once

#include "recorder.h"

namespace hpu {

// `integers`: int64, too. `check`: a copy from the host of values that do not fit is an error.
// `refuse_wrapping`: so is an integer result that does not fit, which the card would cut without a word.
void set_narrowing(bool integers, bool check, bool refuse_wrapping);
bool is_narrow(c10::ScalarType dtype);

// Whether values that the operator writes may be other than those of the narrow type.
bool needs_narrowing(const OpInfo& info, const at::Tensor& written, const torch::jit::Stack& arguments);
// Whether a value of the wide type that such an operator brings in is limited to the narrow range; others wrap around.
bool limits_range(const OpInfo& info);
// Gives a CPU tensor that `writer` has just written the values of the narrow type.
void narrow(const at::Tensor& host, bool limit, const std::string& writer);
// A CPU tensor as it travels to the card.
at::Tensor narrowed(const at::Tensor& source);

}  // namespace hpu
