#pragma once

#include "lockstep/comm/shm/memory/control_block.h"

namespace lockstep::shm {

/// The state of the messages from one rank to another. The sender writes the first two lines, the receiver the third.
struct ChannelCell {
  alignas(kLineBytes) Word sent;                         ///< pieces written so far, over all messages
  Word open;                                             ///< 1 once the channel's memory is in the receiver's inbox
  alignas(kLineBytes) std::array<Word, 3> announcement;  ///< of the message whose pieces follow
  Word tag;
  Word bytes;
  alignas(kLineBytes) Word received;  ///< pieces read so far
};

}  // namespace lockstep::shm
