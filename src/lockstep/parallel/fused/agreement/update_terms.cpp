#include "lockstep/parallel/fused/agreement/update_terms.h"

#include <c10/util/Type.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <typeinfo>
#include <utility>

#include "lockstep/base/failure_cause.h"
#include "lockstep/base/log.h"
#include "lockstep/base/random/hash_bytes.h"
#include "lockstep/base/random/mix_bits.h"
#include "lockstep/base/text/count_of.h"
#include "lockstep/parallel/agreement/agreed_error.h"
#include "lockstep/parallel/agreement/options_number.h"
#include "lockstep/parallel/agreement/rank_difference.h"
#include "lockstep/parallel/wrapped_module.h"

namespace lockstep {
namespace {

std::string kind_of(const FlatOptimizer& optimizer) { return c10::demangle(typeid(optimizer).name()); }

// The same in every process, which a pointer is not.
std::uint64_t number_of(const std::string& text) { return hash_bytes(text.data(), text.size()); }

std::string text_of_request(const UpdateRequest& request) {
  switch (request.kind) {
    case UpdateRequest::Kind::Norm:
      return fmt::format("a clip_grad_norm_ with max_norm {}, norm_type {}, error_if_nonfinite {}, of {}",
                         request.clip.max_norm, request.clip.norm_type, request.clip.error_if_nonfinite,
                         count_of(request.parameters.size(), "parameter"));
    case UpdateRequest::Kind::Scale:
      return fmt::format("a clip_grad_norm_ by the factor {}, of {}", request.factor,
                         count_of(request.parameters.size(), "parameter"));
    case UpdateRequest::Kind::Update:
      break;
  }
  const StepOptions& options = request.options;
  return fmt::format("a step with max_norm {}, gradient_factor {}, zero_grad {}, check_finite {}", options.max_norm,
                     options.gradient_factor, options.zero_grad, options.check_finite);
}

// The lines of UpdateTerms::lines before those of frozen parameters.
constexpr std::size_t kLinesOfACall = 3;

// By number of the line in UpdateTerms::lines.
const char* fix_of(std::size_t line) {
  switch (line) {
    case 0:
      return "make the steps of several optimizers in the same order on every rank";
    case 1:
      return "make a step after the same backwards on every rank: a rank that leaves out a step, as for a loss that is "
             "not finite, would pair its next one with an older one of the others. Decide it by a number that all "
             "ranks have, such as the mean of the losses: all_reduce(loss, ReduceOp::Avg)";
    case 2:
      return "make the same calls with the same options on every rank";
    default:
      return "give the optimizer the same options and parameters on every rank: a learning rate must follow from "
             "numbers that all ranks have, such as the number of the step, or the mean of the losses: "
             "all_reduce(loss, ReduceOp::Avg)";
  }
}

}  // namespace

UpdateTerms::UpdateTerms(UpdateContext& context)
    : optimizer_(context.optimizer),
      backward_(context.backward),
      communicator_(*context.communicator),
      covered_(context.covered),
      agreement_(context.agreement),
      common_(agreement_.equal<std::uint64_t>()),
      settings_(agreement_.equal<std::uint64_t>()),
      place_(agreement_.equal<std::uint64_t>()),
      left_out_(agreement_.equal<std::uint16_t>()),
      named_(backward_.replicas.tensors()),
      frozen_(named_),
      forwards_(backward_.unused_forwards) {
  for (std::size_t i = 0; i < named_.size(); ++i) index_of_[named_[i].tensor.unsafeGetTensorImpl()] = i;
  ended();
}

void UpdateTerms::check_equal(const std::vector<std::string>& how) const {
  std::vector<std::string> lines = how;
  for (std::string& line : list_lines()) lines.push_back(std::move(line));
  const auto difference = first_difference(communicator_, lines);
  if (!difference) return;
  throw Error("the ranks call fuse with different arguments: " + difference->text(),
              communicator_.membership().where() + ", fuse",
              "give fuse an optimizer of the same kind, with the same parameters in the same order, and the same "
              "options on every rank");
}

void UpdateTerms::keep_groups() {
  const auto& groups = optimizer_.param_groups();
  for (std::size_t group = 0; group < groups.size(); ++group) {
    for (const at::Tensor& parameter : groups[group].params()) {
      if (covered_.count(parameter.unsafeGetTensorImpl()) != 0) group_of_[parameter.unsafeGetTensorImpl()] = group;
    }
  }
}

void UpdateTerms::ended() {
  backwards_before_ = backward_.place.backwards();
  zero_grads_before_ = optimizer_.zero_grads();
  forwards_.take();
}

void UpdateTerms::look() {
  std::uint64_t common = list_number();
  mix_into(common, static_cast<std::uint64_t>(backward_.module));
  agreement_.say(common_, common);
  if (!agreement_.has_request()) return;
  std::uint64_t place = 0;
  mix_into(place, static_cast<std::uint64_t>(backward_.module));
  mix_into(place, backwards());
  agreement_.say(place_, place);
  if (agreement_.request().kind != UpdateRequest::Kind::Update) return;
  agreement_.say(settings_, settings());
  agreement_.say(left_out_, static_cast<std::uint16_t>((zero_grads() & 0xff) << 8 | (forwards_.count() & 0xff)));
}

std::uint64_t UpdateTerms::list_number() {
  if (list_has_changed()) read_list();
  return list_number_;
}

std::uint64_t UpdateTerms::settings() {
  std::uint64_t number = list_number();
  mix_into(number, frozen_.number());
  mix_options(number, optimizer_.group_options());
  return number;
}

// In every step, so it looks no parameter up.
bool UpdateTerms::list_has_changed() const {
  std::size_t next = 0;
  for (const auto& group : optimizer_.param_groups()) {
    if (next + group.params().size() >= list_.size()) return true;
    for (const at::Tensor& parameter : group.params()) {
      if (list_[next++] != parameter.unsafeGetTensorImpl()) return true;
    }
    if (list_[next++] != nullptr) return true;
  }
  return next != list_.size();
}

void UpdateTerms::read_list() {
  list_.clear();
  list_number_ = number_of(kind_of(optimizer_));
  for (const auto& group : optimizer_.param_groups()) {
    mix_into(list_number_, group.params().size());
    for (const at::Tensor& parameter : group.params()) {
      list_.push_back(parameter.unsafeGetTensorImpl());
      const auto found = index_of_.find(parameter.unsafeGetTensorImpl());
      mix_into(list_number_, found != index_of_.end() ? found->second : number_of(text_of(parameter)));
    }
    list_.push_back(nullptr);
  }
  is_new_list_ = true;
}

std::string UpdateTerms::text_of(const at::Tensor& parameter) const {
  const auto found = index_of_.find(parameter.unsafeGetTensorImpl());
  if (found != index_of_.end()) return fmt::format("parameter \"{}\"", named_[found->second].name);
  return fmt::format("a parameter that the wrapped module does not have, {} [{}]",
                     c10::toString(parameter.scalar_type()), fmt::join(parameter.sizes(), ", "));
}

std::vector<std::string> UpdateTerms::list_lines() const {
  const auto& groups = optimizer_.param_groups();
  std::vector<std::string> lines{"a " + kind_of(optimizer_), count_of(groups.size(), "parameter group")};
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const auto& parameters = groups[group].params();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      lines.push_back(fmt::format("{} at place {} of parameter group {}", text_of(parameters[i]), i, group));
    }
    lines.push_back(fmt::format("{} in parameter group {}", count_of(parameters.size(), "parameter"), group));
  }
  return lines;
}

// Options first: a list that differs in addition is the smaller surprise.
std::vector<std::string> UpdateTerms::settings_lines() const {
  const std::vector<std::string> list = list_lines();
  const auto parameters = list.begin() + 2;  // behind the kind and the number of groups
  std::vector<std::string> lines(list.begin(), parameters);
  const auto groups = optimizer_.group_options();
  for (std::size_t group = 0; group < groups.size(); ++group) {
    for (const auto& [name, value] : groups[group]) {
      lines.push_back(fmt::format("{} {} in parameter group {}", name, value, group));
    }
  }
  lines.insert(lines.end(), parameters, list.end());
  return lines;
}

std::vector<std::string> UpdateTerms::common_lines() const {
  std::vector<std::string> lines{"a call of the optimizer of " + text_of_module(backward_.module)};
  for (std::string& line : list_lines()) lines.push_back(std::move(line));
  return lines;
}

std::vector<std::string> UpdateTerms::lines(const UpdateRequest& request) const {
  std::vector<std::string> lines{"a call of the optimizer of " + text_of_module(backward_.module),
                                 count_of(backwards(), "synchronised backward") + " since its last step",
                                 text_of_request(request)};
  if (request.kind == UpdateRequest::Kind::Update) {
    for (std::string& line : frozen_.lines()) lines.push_back(std::move(line));
    for (std::string& line : settings_lines()) lines.push_back(std::move(line));
  }
  for (const std::size_t i : request.parameters) {
    lines.push_back(text_of(named_[i].tensor) + " in that call");
  }
  return lines;
}

void UpdateTerms::check() {
  if (agreement_.requests_differ() || agreement_.differs(settings_) || agreement_.differs(place_)) {
    throw_difference();
  }
  if (agreement_.differs(common_)) throw_common_difference();
  if (agreement_.differs(left_out_)) {
    forwards_.warn(communicator_,
                   "called zero_grad() " + count_of(zero_grads(), "time") + " and " +
                       UnusedForwards::text_of(forwards_.count(), "its last step"),
                   agreement_.active());
  }
  if (!is_new_list_) return;
  check_list();
  is_new_list_ = false;
}

void UpdateTerms::throw_difference() const {
  const std::vector<std::string> mine =
      agreement_.has_request() ? lines(agreement_.request()) : std::vector<std::string>();
  const auto difference = first_difference_among(communicator_, mine, agreement_.active());
  const bool is_frozen = difference && agreement_.request().kind == UpdateRequest::Kind::Update &&
                         difference->index >= kLinesOfACall && difference->index < kLinesOfACall + frozen_.size();
  throw_caused(AgreedError("the ranks of a fused optimizer disagree: " +
                               (difference ? difference->text() : std::string("their options have other bits")),
                           communicator_.membership().where() + ", fused optimizer",
                           is_frozen ? FrozenParameters::fix()
                                     : fix_of(difference ? difference->index : lines(UpdateRequest()).size())),
               {FailureCause::Kind::Disagreement, -1});
}

// One of the ranks has no inputs.
void UpdateTerms::throw_common_difference() const {
  const auto difference = first_difference(communicator_, common_lines());
  throw_caused(AgreedError("the ranks of a fused optimizer disagree in a join: " +
                               (difference ? difference->text() : std::string("their lists have other numbers")),
                           communicator_.membership().where() + ", fused optimizer",
                           fix_of(difference && difference->index == 0 ? 0 : common_lines().size() + 2)),
               {FailureCause::Kind::Disagreement, -1});
}

// The ranks have the same list here, so all throw.
void UpdateTerms::check_list() {
  const std::string where = communicator_.membership().where() + ", fused optimizer";
  const auto& groups = optimizer_.param_groups();
  std::unordered_map<const c10::TensorImpl*, std::size_t> present;
  std::optional<std::string> stranger;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    for (const at::Tensor& parameter : groups[group].params()) {
      present[parameter.unsafeGetTensorImpl()] = group;
      if (stranger || !parameter.requires_grad() || WrappedModule::has(parameter)) continue;
      stranger = fmt::format("{} [{}] in parameter group {}", c10::toString(parameter.scalar_type()),
                             fmt::join(parameter.sizes(), ", "), group);
    }
  }
  for (const NamedTensor& each : named_) {
    const auto before = group_of_.find(each.tensor.unsafeGetTensorImpl());
    if (before == group_of_.end()) continue;
    const auto now = present.find(before->first);
    if (now != present.end() && now->second == before->second) continue;
    throw AgreedError(
        fmt::format("parameter \"{}\" was in parameter group {} when the optimizer was fused, and is {} now", each.name,
                    before->second, now == present.end() ? "in no group" : fmt::format("in group {}", now->second)),
        where,
        "call unfuse() before you change the optimizer's lists, and fuse() after; to leave a parameter as it is, "
        "freeze it (requires_grad_(false)) before forward");
  }
  if (!stranger || communicator_.rank() != 0) return;
  log_warning(
      "fuse: the optimizer has a parameter of no wrapped module, {}. Nobody averages its gradient: each rank updates "
      "it by its own, so that ranks drift apart, unless the program averages it. Make it part of a module before that "
      "is "
      "wrapped; if each rank is to have its own, name it in parameters_and_buffers_to_ignore of that wrapper",
      *stranger);
}

}  // namespace lockstep
