#include "lockstep/launch/nodes/one_node.h"

#include <algorithm>

#include "lockstep/base/processor/topology.h"
#include "lockstep/net/secret.h"

namespace lockstep {
namespace {

std::string own_secret() {
  const std::string given = secret_from_environment();
  return given.empty() ? make_secret() : given;
}

}  // namespace

OneNode::OneNode(const LaunchPlan& plan, const std::string& socket)
    : plan_(plan), secret_(own_secret()), server_(SocketAddress::unix_socket(socket), secret_) {}

Agreement OneNode::agree() {
  if (outcome_.get()) ++attempt_;
  replacements_before_ = replacements_;
  outcome_.reset();
  grants_.take();
  server_.forget_generations_before(attempt_);
  Agreement agreement;
  agreement.generation = attempt_;
  agreement.restarts = attempt_ + replacements_;
  agreement.world_size = plan_.local_ranks;
  if (plan_.master_port == 0) port_.emplace();  // a new port: a process of the last attempt may still use the old one
  agreement.master_port = port_ ? port_->number() : plan_.master_port;
  return agreement;
}

void OneNode::mark_lost(int rank, const std::string& cause) {
  server_.mark_lost(attempt_, LostRank{rank, host_name(), cause});
}

void OneNode::ask_for_member() {
  const bool is_left = attempt_ + replacements_ < plan_.max_restarts;
  grants_.push(is_left ? std::optional<int>(plan_.local_ranks + replacements_++) : std::nullopt);
}

void OneNode::report_failure(const RankFailure& failure) {
  // If all ranks are lost at once, nobody lets the processes in that were granted for the first of them.
  replacements_ = std::min(replacements_, replacements_before_ + failure.joined);
  outcome_.publish(Outcome::of_failure(failure.story, attempt_ + replacements_,
                                       failure.recurs ? Outcome::kNoRestarts : plan_.max_restarts));
}

void OneNode::report_leaving(const std::string& why) { outcome_.publish({false, true, false, why}); }

void OneNode::report_success() { outcome_.publish({true, true, false, ""}); }

}  // namespace lockstep
