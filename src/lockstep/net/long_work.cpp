#include "lockstep/net/long_work.h"

#include "lockstep/net/store/patience.h"

namespace lockstep {

LongWork::LongWork(const Membership& membership, const std::string& what, WorkLog log)
    : patience_(membership.patience) {
  if (patience_) number_ = patience_->begin(what, log);
}

LongWork::~LongWork() {
  if (patience_) patience_->end(number_);
}

}  // namespace lockstep
