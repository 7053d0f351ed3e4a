// One rank of the peer "mpi" of `lockstep bench all-reduce`: MPI_Allreduce in place, on memory from MPI_Alloc_mem.
// usage: mpirun -np N lockstep-all-reduce-mpi FOLDER LARGEST_BYTES
#include <mpi.h>

#include <cstdlib>
#include <string>

#include "bench/workers/all_reduce_turn.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  MPI_Init(&argc, &argv);
  lockstep::bench::AllReduceRank me;
  MPI_Comm_rank(MPI_COMM_WORLD, &me.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &me.world_size);
  me.region_bytes = lockstep::bench::region_bytes(std::strtoull(argv[2], nullptr, 10));
  MPI_Alloc_mem(static_cast<MPI_Aint>(me.region_bytes), MPI_INFO_NULL, &me.region);
  const auto all_reduce = [&](std::size_t offset, std::size_t count) {
    MPI_Allreduce(MPI_IN_PLACE, me.region + offset, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  };
  me.ways.push_back({all_reduce, me.region});
  me.synchronise = [] { MPI_Barrier(MPI_COMM_WORLD); };
  lockstep::bench::take_turns(me, argv[1]);
  MPI_Free_mem(me.region);
  MPI_Finalize();
}
