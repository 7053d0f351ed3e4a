#include "lockstep/elastic/elastic_loop.h"

#include <fmt/format.h>

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/elastic/elastic_progress.h"

namespace lockstep {

const std::shared_ptr<Communicator>& ElasticSteps::group() const { return progress_.group(); }
std::int64_t ElasticSteps::step() const { return progress_.step(); }

bool ElasticSteps::next() {
  if (std::exchange(has_begun_, true)) progress_.finish_step();
  if (progress_.lets_in() || progress_.step() >= steps_) return false;
  progress_.start_step();
  return true;
}

void elastic_loop(std::int64_t steps, const ElasticState& state, const std::function<void(ElasticSteps&)>& body,
                  const ProcessGroupOptions& options) {
  ElasticProgress progress(state, options);
  const auto work = [&] {
    progress.begin();
    ElasticSteps now(progress, steps);
    body(now);
    if (progress.step() >= steps) return progress.end();
    if (progress.lets_in()) return progress.admit();
    throw UsageError(fmt::format("the body of elastic_loop returned in step {} of {}", progress.step(), steps),
                     progress.group()->membership().where(), "return when ElasticSteps::next returns false");
  };
  while (!progress.is_over()) progress.attempt(work);
  progress.leave();
}

}  // namespace lockstep
