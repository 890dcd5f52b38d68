"""Why a launch takes as long as it does: what if this unit were free?"""
