#include "lockstep/parallel/end_group.h"

#include "lockstep/base/error.h"

namespace lockstep {

void end_group(Communicator& communicator, const std::string& what, const std::string& fix) {
  communicator.abort(what);
  throw Error(what, communicator.membership().where() + ", DistributedDataParallel", fix);
}

}  // namespace lockstep
