#include "lockstep/base/failure_cause.h"

#include <array>
#include <utility>

namespace lockstep {
namespace {

using Kind = FailureCause::Kind;
constexpr std::array<std::pair<Kind, const char*>, 8> kNames{{{Kind::Own, "own"},
                                                              {Kind::LostPeer, "lost_peer"},
                                                              {Kind::PeerLeft, "peer_left"},
                                                              {Kind::AbortedByPeer, "aborted_by_peer"},
                                                              {Kind::Disagreement, "disagreement"},
                                                              {Kind::Timeout, "timeout"},
                                                              {Kind::Usage, "usage"},
                                                              {Kind::Stopped, "stopped"}}};

template <class AnError>
std::exception_ptr caused(const AnError& error, const FailureCause* cause) {
  if (cause == nullptr) return std::make_exception_ptr(error);
  return std::make_exception_ptr(Caused<AnError>(error, *cause));
}

std::exception_ptr copy_of(const Error& error, const std::string& where, const std::string& fix,
                           const FailureCause* cause) {
  if (dynamic_cast<const TimeoutError*>(&error) != nullptr) {
    return caused(TimeoutError(error.happened(), where, fix), cause);
  }
  return caused(Error(error.happened(), where, fix), cause);
}

}  // namespace

const char* to_string(FailureCause::Kind kind) {
  for (const auto& [each, name] : kNames) {
    if (each == kind) return name;
  }
  return "own";
}

std::optional<FailureCause::Kind> failure_kind(const std::string& text) {
  for (const auto& [kind, name] : kNames) {
    if (text == name) return kind;
  }
  return std::nullopt;
}

const FailureCause* cause_of(const std::exception& error) { return dynamic_cast<const FailureCause*>(&error); }

std::exception_ptr moved_to(const Error& error, const std::string& where) {
  return copy_of(error, where, error.fix(), cause_of(error));
}

std::exception_ptr with_more_advice(const Error& error, const std::string& more) {
  return copy_of(error, error.where(), error.fix() + more, cause_of(error));
}

std::exception_ptr without_cause(const Error& error) { return copy_of(error, error.where(), error.fix(), nullptr); }

}  // namespace lockstep
