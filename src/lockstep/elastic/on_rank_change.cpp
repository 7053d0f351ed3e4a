#include "lockstep/elastic/on_rank_change.h"

#include <fmt/format.h>

#include <exception>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/elastic/elastic_progress.h"

namespace lockstep {

ElasticRunBase::ElasticRunBase(const ElasticState& state, const ProcessGroupOptions& options)
    : state_(state),
      progress_(std::make_unique<ElasticProgress>(state_, options)),
      exceptions_(std::uncaught_exceptions()) {}

ElasticRunBase::~ElasticRunBase() {
  if (progress_->is_over() || std::uncaught_exceptions() > exceptions_) return;
  log_warning(
      "what on_rank_change returned ends after step {} without finish(): the other ranks take this one for lost",
      step());
}

const std::shared_ptr<Communicator>& ElasticRunBase::group() const {
  if (progress_->group()) return progress_->group();
  throw UsageError("group() was called on an ElasticRun whose ranks could not form a group", "this process",
                   "see the failure that came before this one");
}
std::int64_t ElasticRunBase::step() const { return progress_->step(); }

void ElasticRunBase::begin() {
  alone("on_rank_change", [this] {
    while (!is_wrapped_) attempt([] {});
  });
}

void ElasticRunBase::run_step(const std::function<void()>& body) {
  alone("make_step", [&] {
    const std::int64_t made = step() + 1;
    while (step() < made || !is_wrapped_) {
      attempt([&] {
        if (step() >= made) return;
        progress_->compare_ends(false);
        if (progress_->lets_in()) {
          leave_group();
          return progress_->admit();
        }
        progress_->start_step();
        body();
        progress_->finish_step();
      });
    }
  });
}

void ElasticRunBase::finish() {
  alone("finish", [this] {
    while (!progress_->is_over()) {
      attempt([&] {
        progress_->compare_ends(true);
        leave_group();
        progress_->end();
      });
    }
    progress_->leave();
  });
}

// A call within another one would end the wrapper that a step uses, or make a step that the step around it counts.
void ElasticRunBase::alone(const char* call, const std::function<void()>& work) {
  const char* around = nullptr;
  if (!call_.compare_exchange_strong(around, call)) {
    throw UsageError(fmt::format("{} cannot be called within {}", call, around), "this process",
                     "call it between steps, by one thread at a time, and not in a step or in the function that is "
                     "called for each group");
  }
  try {
    require_running(call);
    work();
  } catch (...) {
    has_failed_ = true;
    call_ = nullptr;
    throw;
  }
  call_ = nullptr;
}

// Also meets the ranks of a group that is new. Nothing of a group may be left when it fails.
void ElasticRunBase::attempt(const std::function<void()>& work) {
  progress_->attempt([&] {
    try {
      if (!is_wrapped_) {
        progress_->begin();
        wrap();
        is_wrapped_ = true;
      }
      work();
    } catch (...) {
      leave_group();
      throw;
    }
  });
}

void ElasticRunBase::leave_group() {
  unwrap();
  is_wrapped_ = false;
}

void ElasticRunBase::require_wrapped() const {
  if (is_wrapped_) return;
  throw UsageError("wrapper() was called on an ElasticRun without a wrapper", "this process",
                   "use it before finish(), and no more after a step that failed");
}

// The failed call may have changed half of the state, on some ranks or on all.
void ElasticRunBase::require_running(const char* call) const {
  if (progress_->is_over()) {
    throw UsageError(fmt::format("{} cannot be called after finish()", call), group()->membership().where(),
                     "call finish() once, when all steps are made");
  }
  if (!has_failed_) return;
  const std::string where = progress_->group() ? group()->membership().where() : "this process";
  throw UsageError(fmt::format("{} cannot be called after a call that has failed", call), where,
                   "let the error end the process; catch within the step what the step can continue after");
}

}  // namespace lockstep
