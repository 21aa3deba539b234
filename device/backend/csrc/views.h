#pragma once

#include <c10/core/ScalarType.h>
#include <c10/core/Storage.h>

namespace hpu {

void refuse_dtype(c10::ScalarType dtype);  // this card generation has no such type
void resize_storage(const c10::Storage& storage, size_t nbytes);

}  // namespace hpu
