#include "lockstep/detail/optim/named_state.h"

#include <ATen/ops/cat.h>
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

[[noreturn]] void refuse_name(const std::string& name, const std::string& what) {
  throw Error(fmt::format("optimizer state of {}: {}", name, what), "merge_states",
              "give the parts of all ranks of one step, each once");
}

void check_matches(const std::string& name, const ParameterState& part, const ParameterState& first) {
  if (part.sizes != first.sizes) refuse_name(name, "parts belong to parameters of different shapes");
  if (part.step != first.step) refuse_name(name, fmt::format("parts are of steps {} and {}", first.step, part.step));
  const auto same_kind = [](const auto& a, const auto& b) {
    return a.first == b.first && a.second.scalar_type() == b.second.scalar_type();
  };
  if (!std::equal(part.tensors.begin(), part.tensors.end(), first.tensors.begin(), first.tensors.end(), same_kind)) {
    refuse_name(name, "parts hold different kinds of state");
  }
}

ParameterState join(const std::string& name, std::vector<ParameterState> parts) {
  std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  ParameterState whole = parts.front();
  std::int64_t next = 0;
  for (const auto& part : parts) {
    check_matches(name, part, whole);
    if (part.begin != next) {
      refuse_name(name, fmt::format("elements {} to {} are {}", std::min(next, part.begin), std::max(next, part.begin),
                                    part.begin > next ? "missing" : "there twice"));
    }
    next = part.end;
  }
  if (next != whole.numel()) refuse_name(name, fmt::format("elements {} to {} are missing", next, whole.numel()));
  if (parts.size() == 1) return whole;
  for (auto& [kind, tensor] : whole.tensors) {
    std::vector<at::Tensor> pieces;
    for (const auto& part : parts) pieces.push_back(part.tensors.at(kind));
    tensor = at::cat(pieces).view(whole.sizes);
  }
  whole.begin = 0;
  whole.end = next;
  return whole;
}

}  // namespace

std::int64_t ParameterState::numel() const {
  std::int64_t n = 1;
  for (const std::int64_t size : sizes) n *= size;
  return n;
}

NamedState merge_states(const std::vector<NamedState>& parts) {
  std::map<std::string, std::vector<ParameterState>> by_name;
  for (const NamedState& part : parts) {
    for (const auto& [name, state] : part) by_name[name].push_back(state);
  }
  NamedState merged;
  for (auto& [name, states] : by_name) merged.emplace(name, join(name, std::move(states)));
  return merged;
}

}  // namespace lockstep
