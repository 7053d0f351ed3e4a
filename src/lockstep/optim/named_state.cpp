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

// Sorts the parts by their first element, and checks that they have each of [begin, end) once.
void order_parts(const std::string& name, std::vector<const ParameterState*>& parts, std::int64_t begin,
                 std::int64_t end) {
  std::sort(parts.begin(), parts.end(), [](const auto* a, const auto* b) { return a->begin < b->begin; });
  std::int64_t next = begin;
  for (const ParameterState* part : parts) {
    check_matches(name, *part, *parts.front());
    const bool is_twice = part->begin < next && part != parts.front();
    if (is_twice || part->begin > next) {
      refuse_name(name, fmt::format("elements {} to {} are {}", std::min(next, part->begin),
                                    std::max(next, part->begin), is_twice ? "there twice" : "missing"));
    }
    next = part->end;
  }
  if (next < end) refuse_name(name, fmt::format("elements {} to {} are missing", next, end));
}

at::Tensor elements_of(const std::string& name, const ParameterState& part, const std::string& kind, std::int64_t begin,
                       std::int64_t end) {
  const at::Tensor flat = part.tensors.at(kind).reshape({-1});
  if (flat.numel() != part.end - part.begin) {
    refuse_name(name, fmt::format("there are {} values for elements [{}, {})", flat.numel(), part.begin, part.end));
  }
  return flat.slice(0, std::max(begin, part.begin) - part.begin, std::min(end, part.end) - part.begin);
}

ParameterState join(const std::string& name, const std::vector<const ParameterState*>& parts) {
  const std::int64_t numel = parts.front()->numel();
  if (numel == 0 || (parts.size() == 1 && parts.front()->is_whole())) return *parts.front();
  ParameterState whole = cut_state(name, parts, 0, numel);
  for (auto& item : whole.tensors) item.second = item.second.view(whole.sizes);
  return whole;
}

}  // namespace

std::int64_t ParameterState::numel() const {
  std::int64_t n = 1;
  for (const std::int64_t size : sizes) n *= size;
  return n;
}

ParameterState cut_state(const std::string& name, const std::vector<const ParameterState*>& parts, std::int64_t begin,
                         std::int64_t end) {
  std::vector<const ParameterState*> needed;
  for (const ParameterState* part : parts) {
    if (part->begin < end && part->end > begin) needed.push_back(part);
  }
  if (needed.empty()) refuse_name(name, fmt::format("elements {} to {} are missing", begin, end));
  order_parts(name, needed, begin, end);
  ParameterState result = *needed.front();
  result.begin = begin;
  result.end = end;
  for (auto& [kind, tensor] : result.tensors) {
    std::vector<at::Tensor> pieces;
    for (const ParameterState* part : needed) pieces.push_back(elements_of(name, *part, kind, begin, end));
    tensor = pieces.size() == 1 ? pieces.front() : at::cat(pieces);
  }
  return result;
}

NamedState merge_states(const std::vector<NamedState>& parts) {
  std::map<std::string, std::vector<const ParameterState*>> by_name;
  for (const NamedState& part : parts) {
    for (const auto& [name, state] : part) by_name[name].push_back(&state);
  }
  NamedState merged;
  for (const auto& [name, states] : by_name) merged.emplace(name, join(name, states));
  return merged;
}

}  // namespace lockstep
