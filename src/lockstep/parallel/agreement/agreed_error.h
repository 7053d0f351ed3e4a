#pragma once

#include "lockstep/base/error.h"

namespace lockstep {

/// An Error that every rank throws at the same point, so that no rank waits for another.
class AgreedError : public Error {
 public:
  using Error::Error;
};

}  // namespace lockstep
