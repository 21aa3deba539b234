// What is fixed about each operator: how it is recorded, replayed and keyed.
#include "recorder.h"

#include <ATen/core/enum_tag.h>

#include <unordered_map>
#include <unordered_set>

namespace hpu {
namespace {

Hash hash_text(const std::string& text) {
  Hash hash;
  hash.mix(text.size());
  uint64_t word = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    word = (word << 8) | static_cast<unsigned char>(text[i]);
    if (i % 8 == 7) hash.mix(word);
  }
  hash.mix(word);
  return hash;
}

// Scalars that the bridge turns into device tensors: a new value does not make a new recipe.
std::vector<int> tensorised_scalars(const c10::FunctionSchema& schema, bool* unit_matters) {
  static const std::unordered_map<std::string, std::string> table = {
      {"aten::add", "alpha"},      {"aten::add_", "alpha"},      {"aten::sub", "alpha"},    {"aten::sub_", "alpha"},
      {"aten::rsub", "alpha"},     {"aten::addcmul", "value"},   {"aten::addcmul_", "value"},
      {"aten::addcdiv", "value"},  {"aten::addcdiv_", "value"},
  };
  static const std::unordered_set<std::string> comparisons = {"aten::eq", "aten::ne", "aten::lt", "aten::le", "aten::gt",
                                                              "aten::ge", "aten::bitwise_and", "aten::bitwise_or",
                                                              "aten::bitwise_xor", "aten::xlogy"};
  std::vector<int> positions;
  *unit_matters = table.count(schema.name()) > 0;
  const auto found = table.find(schema.name());
  const bool comparison = comparisons.count(schema.name()) > 0;
  const bool optimizer = schema.name().rfind("aten::_fused_", 0) == 0;  // their learning rate follows a schedule
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto& argument = schema.arguments()[i];
    const bool number = argument.type()->kind() == c10::TypeKind::NumberType;
    if (number && ((found != table.end() && argument.name() == found->second) || (comparison && argument.name() == "other")))
      positions.push_back(static_cast<int>(i));
    if (optimizer && argument.name() == "lr" && argument.type()->kind() == c10::TypeKind::FloatType)
      positions.push_back(static_cast<int>(i));
  }
  return positions;
}

bool takes_integers(const std::string& name) {
  return name == "aten::lerp" || name == "aten::lerp_" || name == "aten::trunc" || name == "aten::trunc_" ||
         name == "aten::uniform_";
}

bool is_index(const std::string& name) { return name == "index" || name == "indices" || name == "target"; }

bool is_tensor_list(const c10::TypePtr& type) {
  return type->kind() == c10::TypeKind::ListType &&
         type->castRaw<c10::ListType>()->getElementType()->kind() == c10::TypeKind::TensorType;
}

OpInfo describe(const c10::OperatorHandle& op) {
  const auto& schema = op.schema();
  OpInfo info(op);
  info.name = schema.overload_name().empty() ? schema.name() : schema.name() + "." + schema.overload_name();
  info.hash = hash_text(info.name);
  info.arguments = schema.arguments().size();
  info.random = op.hasTag(at::Tag::nondeterministic_seeded);
  if (op.hasTag(at::Tag::data_dependent_output) || op.hasTag(at::Tag::dynamic_output_shape))
    info.run = OpInfo::Run::Immediate;
  if (schema.name().rfind("aten::quantize_per_", 0) == 0) info.run = OpInfo::Run::Immediate;  // which refuses them
  info.takes_host_tensors = schema.name().find("index") != std::string::npos;
  info.takes_integers = takes_integers(schema.name());
  info.product = product_of(schema);
  info.scalars = tensorised_scalars(schema, &info.unit_scalar_matters);
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto& argument = schema.arguments()[i];
    info.is_index.push_back(is_index(argument.name()));
    if (argument.name() == "generator") info.generator = static_cast<int>(i);
    if (info.name.rfind("hpu::", 0) == 0 && (argument.name() == "stochastic_rounding" || argument.name() == "p"))
      info.chance = static_cast<int>(i);
    if (argument.alias_info() && argument.alias_info()->isWrite()) {
      info.written.push_back(static_cast<int>(i));
      if (argument.is_out()) info.outs.push_back(static_cast<int>(i));
    }
  }
  info.predicts = !info.outs.empty();
  for (const auto& result : schema.returns()) {
    int alias = -1;
    if (result.alias_info()) {
      for (size_t i = 0; i < schema.arguments().size(); ++i) {
        const auto* argument_alias = schema.arguments()[i].alias_info();
        if (argument_alias && argument_alias->beforeSets() == result.alias_info()->beforeSets())
          alias = static_cast<int>(i);
      }
    }
    const bool list = is_tensor_list(result.type());
    if (!list && result.type()->kind() != c10::TypeKind::TensorType) info.run = OpInfo::Run::Immediate;
    if (alias < 0) info.predicts = true;
    info.returns.push_back(alias);
    info.list_return.push_back(list);
  }
  return info;
}

}  // namespace

OpInfo& op_info(const c10::OperatorHandle& op) {
  static auto* table = new std::unordered_map<c10::OperatorHandle, OpInfo>();
  auto found = table->find(op);
  if (found == table->end()) found = table->emplace(op, describe(op)).first;
  return found->second;
}

}  // namespace hpu
