package connections

import (
	"fmt"
	"syscall"
)

const (
	// keptFiles descriptors are for everything but clients: libraries, versions that are read, HDFS, logs.
	keptFiles = 256
	// least connections of an address, below which a lowered bound serves nobody.
	least = 16
)

// OpenFiles is how many descriptors this process may have: what `ulimit -n` says, whose soft limit Go raises to the hard one.
func OpenFiles() (uint64, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("`ulimit -n` cannot be read: %w", err)
	}
	return limit.Cur, nil
}

// Fit is how many connections each of some addresses may take: as many as are wanted, or what openFiles leave them beside
// keptFiles. Idle connections would take all descriptors else, those of other addresses and of versions included.
func Fit(wanted, addresses int, openFiles uint64) (most int, warning string, err error) {
	each := uint64(addresses)
	needed := each*uint64(wanted) + keptFiles
	if addresses == 0 || needed <= openFiles {
		return wanted, "", nil
	}
	left := uint64(0)
	if openFiles > keptFiles {
		left = (openFiles - keptFiles) / each
	}
	if lowest := uint64(min(least, wanted)); left < lowest {
		return 0, "", fmt.Errorf("`ulimit -n` is %d, of which %d are for other files than connections: that leaves %d for each of %d addresses;"+
			" allowed: %d or more; raise it to %d for these, or to %d for limits.connections of %d",
			openFiles, keptFiles, left, addresses, lowest, each*lowest+keptFiles, needed, wanted)
	}
	return int(left), fmt.Sprintf("limits.connections is %d, and `ulimit -n` is %d, of which %d are for other files: each of %d addresses takes %d"+
		" connections; raise `ulimit -n` to %d", wanted, openFiles, keptFiles, addresses, left, needed), nil
}
