# Builds the part of the mpi engine that sees MPI, as a module that is loaded where the engine is used, or leaves the
# engine out where MPI is not installed.
find_package(MPI QUIET COMPONENTS CXX)
set(lockstep_mpi_folder ${PROJECT_SOURCE_DIR}/src/lockstep/comm/mpi)
if(NOT MPI_CXX_FOUND)
  file(GLOB lockstep_mpi_sources ${lockstep_mpi_folder}/*.cpp)
  lockstep_remove_sources(lockstep_comm ${lockstep_mpi_sources})
  lockstep_report("engine mpi" "no (libopenmpi-dev is not installed)")
  return()
endif()

set(lockstep_mpi_sources ${lockstep_mpi_folder}/mpi_mesh.cpp ${lockstep_mpi_folder}/mpi_runtime.cpp)
lockstep_remove_sources(lockstep_comm ${lockstep_mpi_sources})
add_library(lockstep_mpi MODULE ${lockstep_mpi_sources})
target_include_directories(lockstep_mpi PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_compile_definitions(lockstep_mpi PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
target_link_libraries(lockstep_mpi PRIVATE lockstep_flags MPI::MPI_CXX Threads::Threads)
lockstep_engine_module(lockstep_mpi)
target_compile_definitions(lockstep_comm PRIVATE LOCKSTEP_HAS_MPI=1 LOCKSTEP_MPI_MODULE_NAME="liblockstep_mpi.so"
                           LOCKSTEP_MPI_MODULE_BUILT="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/liblockstep_mpi.so")
add_dependencies(lockstep_comm lockstep_mpi)
lockstep_report("engine mpi" "${MPI_CXX_HEADER_DIR}, loaded where it is used")
