#pragma once

#include <string>

namespace hpu {

// LowerFirst: normalizations, whose weights keep their type.
enum class CastPolicy { Lower, LowerFirst, Float32, Promote };

void set_cast_policy(const std::string& name, const std::string& overload, CastPolicy policy);

}  // namespace hpu
