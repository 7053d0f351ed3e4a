#include "lockstep/parallel/agreement/step_position.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"
#include "lockstep/base/failure_cause.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text/count_of.h"

namespace lockstep {
namespace {

constexpr std::chrono::seconds kLongestWait{2};
constexpr std::chrono::milliseconds kBetweenLooks{5};
constexpr const char* kFix =
    "make a step after the same backwards on every rank: a rank that leaves out a step, as for a loss that is not "
    "finite, is in the next one while the others wait. Decide it by a number that all ranks have, such as the mean of "
    "the losses: all_reduce(loss, ReduceOp::Avg)";

std::string key_of(int rank) { return "step_position/" + std::to_string(rank); }

// As it is in the store.
std::string place_of(const StepPosition& position, const char* call) {
  return fmt::format("is in {}, with {} since step {} of the optimizer", call,
                     count_of(position.backwards, "synchronised backward"), position.steps);
}

// By rank; nothing for those that have not said it in time.
std::vector<std::optional<std::string>> places_of(const Membership& membership, const std::string& own) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < membership.world_size; ++rank) keys.push_back(key_of(rank));
  membership.store->set(key_of(membership.rank), own);
  const Deadline deadline = Deadline::after(kLongestWait);
  while (true) {
    std::vector<std::optional<std::string>> places = membership.store->try_get_all(keys);
    const bool are_all = std::all_of(places.begin(), places.end(), [](const auto& place) { return place.has_value(); });
    if (are_all || deadline.passed()) return places;
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

// "rank 0 has ..., rank 2 has ..."; empty if all that are known are equal.
std::string difference_in(const std::vector<std::optional<std::string>>& places) {
  const auto is_known = [](const auto& place) { return place.has_value(); };
  const auto first = std::find_if(places.begin(), places.end(), is_known);
  const auto other = std::find_if(first, places.end(), [&](const auto& place) { return place && *place != **first; });
  if (other == places.end()) return "";
  return fmt::format("rank {} {}, rank {} {}", first - places.begin(), **first, other - places.begin(), **other);
}

}  // namespace

std::exception_ptr with_positions(const Communicator& communicator, const StepPosition& own, const char* call,
                                  const std::exception_ptr& failure) noexcept {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    const FailureCause* const cause = cause_of(error);
    if (cause == nullptr || cause->kind != FailureCause::Kind::Disagreement) return failure;
    try {
      const Membership& membership = communicator.membership();
      if (!membership.store || membership.world_size < 2) return failure;
      const std::string difference = difference_in(places_of(membership, place_of(own, call)));
      if (difference.empty()) return failure;
      return std::make_exception_ptr(
          Caused<Error>(Error("the ranks of a fused optimizer are in different places of the training: " + difference +
                                  " (" + error.happened() + ")",
                              membership.where() + ", fused optimizer", kFix),
                        *cause));
    } catch (const std::exception& problem) {
      log_debug("the ranks' places in the training are not compared: {}", problem.what());
    }
    return failure;
  } catch (...) {
    return failure;
  }
}

}  // namespace lockstep
