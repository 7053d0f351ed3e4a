#include "lockstep/parallel/backward/same_place.h"

#include "lockstep/parallel/slices/update_difference.h"
#include "lockstep/parallel/wrapped_module.h"

namespace lockstep {

void SameModule::ends(BackwardFlags& mine) {
  mine.say(context_.facts.module, static_cast<std::uint64_t>(context_.module));
}

void SameModule::check(const BackwardFlags& all) {
  if (all.differs(context_.facts.module)) throw_different_modules(*context_.communicator, context_.module);
}

void SameFrozen::ends(BackwardFlags& mine) {
  if (!mine.joined(context_.communicator->rank())) mine.say(context_.facts.frozen, frozen_.number());
}

void SameFrozen::check(const BackwardFlags& all) {
  if (all.differs(context_.facts.frozen)) frozen_.throw_difference(*context_.communicator, all.active_ranks());
}

void SameBatches::ends(BackwardFlags& mine) { mine.say(context_.facts.left_out, forwards_.count()); }

void SameBatches::check(const BackwardFlags& all) {
  const std::uint64_t here = forwards_.take();
  if (!all.differs(context_.facts.left_out)) return;
  forwards_.warn(*context_.communicator, UnusedForwards::text_of(here, "the last backward"), all.active_ranks());
}

void SameUpdate::ends(BackwardFlags& mine) { mine.say(context_.facts.update, context_.update); }

void SameUpdate::check(const BackwardFlags& all) {
  if (all.differs(context_.facts.update)) throw_different_updates(*context_.communicator, context_.update);
}

}  // namespace lockstep
