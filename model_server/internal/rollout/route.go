package rollout

import "hash/fnv"

// Route says which version a request gets that names none. It is never changed, only replaced.
type Route struct {
	// Default has what no share takes; 0: no version is there.
	Default int64
	// HashHeader is the header by whose value requests keep their version; "": by chance.
	HashHeader string
	// Salt makes the shares of one route independent of those of others.
	Salt string
	// Shares are in percent. The first ones count where they are over 100 together.
	Shares []Share
}

// Share is the part of the requests that one version gets.
type Share struct {
	Version int64
	Percent float64
}

// Choose is the version of a request with a value of HashHeader ("": none), or a number from 0 to 1 by chance.
func (r *Route) Choose(key string, chance float64) int64 {
	if len(r.Shares) == 0 {
		return r.Default
	}
	if key != "" {
		chance = place(r.Salt, key)
	}
	left := 100 * chance
	for _, each := range r.Shares {
		if left -= each.Percent; left < 0 {
			return each.Version
		}
	}
	return r.Default
}

// place spreads keys evenly over 0 to 1.
func place(salt, key string) float64 {
	hash := fnv.New64a()
	hash.Write([]byte(salt)) //nolint:errcheck // it has no errors
	hash.Write([]byte{0})    //nolint:errcheck
	hash.Write([]byte(key))  //nolint:errcheck
	return float64(mixed(hash.Sum64())>>11) / (1 << 53)
}

// mixed is MurmurHash3's finalizer: keys that differ in their last letter alone are close to each other in FNV.
func mixed(hash uint64) uint64 {
	hash ^= hash >> 33
	hash *= 0xff51afd7ed558ccd
	hash ^= hash >> 33
	hash *= 0xc4ceb9fe1a85ec53
	return hash ^ hash>>33
}

// SplitOf are the shares of labels, in their order. The share of a label whose version is not there (0) goes to the
// version of the largest one that is, in its place: who gets another version stays with it. Largest is that version; 0:
// none is there, and there are no shares.
func SplitOf(labels []string, percents map[string]float64, version func(label string) int64) (shares []Share, largest int64) {
	most := 0.0
	for _, label := range labels {
		share := Share{version(label), percents[label]}
		if share.Version != 0 && share.Percent > most {
			largest, most = share.Version, share.Percent
		}
		shares = append(shares, share)
	}
	if largest == 0 {
		return nil, 0
	}
	for i := range shares {
		if shares[i].Version == 0 {
			shares[i].Version = largest
		}
	}
	shares[len(shares)-1].Percent = 100 // it has the rest, however the sum was rounded
	return shares, largest
}
