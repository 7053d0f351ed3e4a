#include "lockstep/parallel/backward/same_weights.h"

#include "lockstep/parallel/agreement/weights_agreement.h"

namespace lockstep {

void SameLoadedWeights::moved(std::size_t /*dense*/, std::size_t /*sparse*/) { moved_ = true; }

void SameLoadedWeights::begins(BackwardFlags& mine) {
  if (moved_) mine.say(context_.facts.moved);
}

void SameLoadedWeights::check(const BackwardFlags& all) {
  // A hook that lets models differ has not brought the other ranks' flags.
  if (context_.join.is_on() || !all.is_said(context_.facts.moved) || !context_.reduction->synchronizes()) return;
  moved_ = false;
  check_equal_weights(*context_.communicator, parameters_);
}

void SameReplicas::ends(BackwardFlags& mine) {
  if (const auto bits = context_.look_at_replicas()) mine.say(context_.facts.replicas, *bits);
}

void SameReplicas::check(const BackwardFlags& all) {
  if (context_.join.is_on() || !context_.reduction->allows_join()) return;
  context_.replicas.compare(*context_.communicator,
                            static_cast<std::uint32_t>(all.differing_bits(context_.facts.replicas)));
}

}  // namespace lockstep
