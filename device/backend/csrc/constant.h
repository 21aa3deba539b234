// Large memory that holds one number throughout, without as much memory of this machine.
#pragma once

#include "block.h"

#include <ATen/core/stack.h>

#include <string>

namespace hpu {

bool is_fill(const std::string& name);

constexpr size_t kLarge = size_t{1} << 30;

// Fills a large block with what a fill's arguments say: (tensor, number) or (tensor). False where it has memory of its
// own already; then the operator fills that.
bool hold_constant(Block& block, const torch::jit::Stack& arguments);

// Throws where something is about to be written all over a block that holds a constant, and this machine has not as
// much memory: the kernel would end the process.
void require_pages(const Block& block);

}  // namespace hpu
